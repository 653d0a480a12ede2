//! Data folders made once, kept in the cache folder and copied for every server, because making
//! one takes several times as long as starting a server on it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::support::process::run;
use crate::support::scratch;

/// Copies the prepared folder `name` to `target`, after having `make` fill it if there is none.
///
/// The name must change with all that shapes the contents: the server's version first of all.
pub fn copy(name: &str, make: impl FnOnce(&Path), target: &Path) {
    let cache = scratch::cache().join("data");
    let kept = cache.join(name);
    if !kept.exists() {
        fs::create_dir_all(&cache).expect("the cache folder can be made");
        let lock = File::create(cache.join(format!("{name}.lock")))
            .expect("a lock file can be made in the cache folder");
        lock.lock().expect("the lock file can be locked");
        // Another process may have made it while this one waited for the lock.
        if !kept.exists() {
            make_kept(&kept, make);
        }
    }
    copy_folder(&kept, target);
}

fn make_kept(kept: &Path, make: impl FnOnce(&Path)) {
    // Made elsewhere, for PostgreSQL's user may not enter the cache of another user.
    let workshop = scratch::folder("prepared");
    let made = workshop.path().join("data");
    make(&made);
    // Renamed when complete: nobody ever sees half a folder.
    let incoming = kept.with_added_extension("incoming");
    if incoming.exists() {
        fs::remove_dir_all(&incoming).expect("what a killed process left can be removed");
    }
    copy_folder(&made, &incoming);
    fs::rename(&incoming, kept).expect("the prepared folder can be put in its place");
}

fn copy_folder(from: &Path, to: &Path) {
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto"]).arg(from).arg(to);
    run(copy);
}
