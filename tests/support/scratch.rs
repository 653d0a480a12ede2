//! Throw-away folders. All of one process live under one folder named after its pid, which is
//! removed when the process exits; what a killed process left is removed by the next one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::process;

const PREFIX: &str = "oncegate-";

/// A new empty folder, removed on drop.
///
/// Others may enter it, for PostgreSQL refuses to run as root and then runs as another user.
pub fn folder(name: &str) -> TempDir {
    new_folder(&format!("{name}-"), root())
}

/// Where programs are kept between runs: the MySQL tree, the old Redis, prepared data folders.
pub fn cache() -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("ONCEGATE_TEST_CACHE").unwrap_or_else(|| {
        set("XDG_CACHE_HOME")
            .or_else(|| set("HOME").map(|home| home.join(".cache")))
            .expect("HOME, XDG_CACHE_HOME or ONCEGATE_TEST_CACHE must say where to keep the cache")
            .join("oncegate-tests")
    })
}

fn root() -> &'static Path {
    static ROOT: OnceLock<TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| {
        let temp = std::env::temp_dir();
        remove_leftovers(&temp);
        let root = new_folder(&format!("{PREFIX}{}-", std::process::id()), &temp);
        // Statics are never dropped, so the shared servers need this to be cleaned up.
        // SAFETY: the handler is a plain function without arguments.
        unsafe { libc::atexit(clean_up) };
        root
    });

    extern "C" fn clean_up() {
        process::kill_all();
        if let Some(root) = ROOT.get() {
            // Nobody is left to tell; the next run tries again.
            let _ = fs::remove_dir_all(root.path());
        }
    }
    root.path()
}

fn new_folder(prefix: &str, parent: &Path) -> TempDir {
    tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o755))
        .tempdir_in(parent)
        .unwrap_or_else(|e| panic!("no folder {prefix}… in {}: {e}", parent.display()))
}

fn remove_leftovers(temp: &Path) {
    for entry in fs::read_dir(temp).expect("the temp folder can be listed").flatten() {
        let owner = entry.file_name().to_str().and_then(owner_pid);
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            // Another process may be removing it as well, or it belongs to another user.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn owner_pid(folder: &str) -> Option<u32> {
    folder.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}
