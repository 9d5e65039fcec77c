/** Writes the configuration for the containers of compose.yaml, which is where these names are known. */
import { writeConfig } from "./write-config.ts";

/** Where Docker gives its networks their addresses. */
const NETWORKS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

writeConfig({
  folder: "/config",
  port: 3000,
  storage: "mongodb://mongodb:27017/sign-in?replicaSet=rs0",
  redis: "redis://redis:6379",
  proxy: NETWORKS,
  // All addresses of the container: nothing publishes the port, so only the network of the cluster reaches it.
  metricsHost: "0.0.0.0",
});
