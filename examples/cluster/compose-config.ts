/** Writes the configuration for the containers of compose.yaml. The host names are those of its services. */
import { writeConfig } from "./write-config.ts";

/** The ranges that Docker uses for its networks. */
const NETWORKS = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];

writeConfig({
  folder: "/config",
  port: 3000,
  storage: "postgresql://postgres@postgresql-1,postgresql-2/postgres",
  redis: "redis+sentinel://sentinel-1,sentinel-2,sentinel-3/0?master=main",
  proxy: NETWORKS,
  // The port isn't published, so only the network of the cluster can reach it.
  metricsHost: "0.0.0.0",
});
