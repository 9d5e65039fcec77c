/** What `doctor --against` can find. */
const STAYS = "The new version refuses to start, and changes nothing.";

export const UPGRADE_FINDINGS = {
  upgrade_backwards: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} is older than this one, which is {own}.",
    why: "An older version does not know what this one has written.",
    fix: "To go back, see Go back in docs/operate/day-to-day/upgrading.md.",
  },
  upgrade_format: {
    check: "upgrade",
    level: "problem",
    what: "The storage is in format {format}, which version {version} does not read.",
    why: STAYS,
    fix: "Upgrade to the minor versions in between one after the other, each with its storage migrate.",
  },
  upgrade_unfinished: {
    check: "upgrade",
    level: "problem",
    what: "The storage has not been changed to the format of this version yet.",
    why: "Version {version} reads the format of this version only if it is whole.",
    fix: "Run storage migrate of this version first.",
  },
  upgrade_stops: {
    check: "upgrade",
    level: "warning",
    what: "Version {version} needs format {next}, and a storage gets there in one step.",
    why: "The two versions can't run side by side.",
    fix: "Stop all servers and workers, run storage migrate of the new version, and start the new version.",
  },
  upgrade_migrates: {
    check: "upgrade",
    level: "note",
    what: "Version {version} writes format {next}. It runs beside this one until storage migrate.",
    why: "Until then you can go back by starting this version again.",
    fix: "Replace the processes one after the other, and then run storage migrate of the new version.",
  },
  upgrade_node: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} needs Node.js {needed}, and this is {node}.",
    why: "It does not start on an older one.",
    fix: "Install the newer Node.js first: this version runs on it as well.",
  },
  upgrade_key: {
    check: "upgrade",
    level: "problem",
    what: "Version {version} has no key {key} in its configuration.",
    why: STAYS,
    fix: "Read in the changelog what takes its place.",
  },
} as const;
