//! What the process may use of the machine, where defaults depend on it.

use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    pub n_cpus: u32,
    /// Least limit of the control groups that this process is in.
    pub memory_limit_bytes: Option<u64>,
}

impl Default for Machine {
    /// Two processors and no limit: a fixed machine for tests and examples.
    fn default() -> Self {
        Self { n_cpus: 2, memory_limit_bytes: None }
    }
}

impl Machine {
    /// The machine that this process runs on.
    pub fn here() -> Self {
        let n_cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limit = memory_limit(&groups, |file| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(file)).ok());
        Self { n_cpus, memory_limit_bytes: limit }
    }
}

/// The least limit of the group named in `/proc/self/cgroup` and of those above it, for both versions of control groups.
fn memory_limit(groups: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let mut files = vec!["memory.max".to_owned(), "memory/memory.limit_in_bytes".to_owned()];
    let mut above = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        above = format!("{above}{part}/");
        files.push(format!("{above}memory.max"));
    }
    // `max` (version 2) does not parse, and version 1 says "no limit" with a number near 2^63.
    let limits = files.iter().filter_map(|file| read(file)?.trim().parse::<u64>().ok());
    limits.filter(|&limit| limit < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(groups: &str, files: &[(&str, &str)], limit: Option<u64>) {
        let read = |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned());
        assert_eq!(memory_limit(groups, read), limit);
    }

    #[test]
    fn least_limit_of_all_groups_above() {
        check("0::/", &[("memory.max", "536870912\n")], Some(536_870_912));
        check("0::/", &[("memory.max", "max\n")], None);
        check("0::/a/b\n", &[("a/memory.max", "100\n"), ("a/b/memory.max", "max\n")], Some(100));
        check("", &[("memory/memory.limit_in_bytes", "9223372036854771712\n")], None);
        check("1:memory:/x\n", &[("memory/memory.limit_in_bytes", "4096\n")], Some(4096));
        check("", &[], None);
    }
}
