//! TCP_NODELAY for the driver's sockets.
//!
//! ## Why through the list of open files
//! The driver connects without it and offers no way to set it. A statement longer than one segment
//! then waits for the server's delayed acknowledgement, 40 ms each time, which is most of the time
//! of a batch. So after each connect the sockets of this process that lead to the database's port
//! are looked up and set. Where that cannot be done (not Linux) nothing breaks, it is only slower.

use std::os::fd::BorrowedFd;

use socket2::SockRef;

/// Sets it on every connection to this port.
#[allow(unsafe_code, reason = "the descriptors are listed by the kernel and used at once")]
pub fn on_connections_to(port: u16) {
    let Ok(open_files) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let numbers = open_files.flatten().filter_map(|file| file.file_name().to_str()?.parse().ok());
    for number in numbers {
        // SAFETY: should it have been closed meanwhile, the calls below fail; should another socket
        // have taken its number, that one must lead to the same port to be touched at all.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        let socket = SockRef::from(&file);
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        if peer.is_some_and(|peer| peer.port() == port) {
            let _ = socket.set_tcp_nodelay(true);
        }
    }
}
