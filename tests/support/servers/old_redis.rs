//! A Redis older than 7, which refuses `SET … NX GET`. No Debian of today has one, but a Python
//! package carries one, which tests/run unpacks into the cache folder.

use super::Redis;
use super::binaries::{Kind, available, needed};

pub struct OldRedis;

impl OldRedis {
    pub fn available() -> bool {
        available(Kind::OldRedis)
    }

    pub fn start() -> Redis {
        Redis::start_program(needed(Kind::OldRedis), &[])
    }
}
