//! A Redis Cluster of three masters that share the slots.

use std::time::Duration;

use super::{Redis, Server, wire};
use crate::support::family::wait_until;
use crate::support::ports::Port;

pub struct RedisCluster {
    nodes: Vec<Redis>,
    _bus_ports: Vec<Port>,
}

impl Redis {
    pub fn start_cluster() -> RedisCluster {
        const SLOTS: [(&str, &str); 3] = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
        let bus_ports: Vec<Port> = SLOTS.iter().map(|_| Port::claim()).collect();
        let nodes: Vec<Redis> = bus_ports.iter().map(start_node).collect();
        for (number, (node, (first, last))) in (1..).zip(nodes.iter().zip(SLOTS)) {
            node.command(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
            // Distinct from the start, or the nodes would first have to settle a conflict.
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &i32::to_string(&number)]);
        }
        for (node, bus) in nodes.iter().zip(&bus_ports).skip(1) {
            let (port, bus) = (node.port().to_string(), bus.number().to_string());
            nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = RedisCluster { nodes, _bus_ports: bus_ports };
        cluster.wait_until_ok();
        cluster
    }
}

impl RedisCluster {
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    pub fn url(&self) -> String {
        let [first, others @ ..] = &self.nodes[..] else { unreachable!("a cluster has nodes") };
        let others: Vec<String> =
            others.iter().map(|node| format!("node=127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://127.0.0.1:{}?{}", first.port(), others.join("&"))
    }

    /// Makes all nodes forget everything.
    pub fn flush(&self) {
        self.nodes.iter().for_each(Redis::flush);
    }

    /// Waits until every node sees the whole cluster, as after the restart of a node.
    pub fn wait_until_ok(&self) {
        let sees_all = |node: &Redis| {
            let info = wire::redis(node.port(), &["CLUSTER", "INFO"]).unwrap_or_default();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        assert!(
            wait_until(Duration::from_secs(30), || self.nodes.iter().all(sees_all)),
            "the cluster does not form; the first node's log:\n{}",
            self.nodes[0].instance().log_tail(),
        );
    }
}

fn start_node(bus: &Port) -> Redis {
    Redis::start_with(&[
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus.number().to_string(),
        "--cluster-announce-ip",
        "127.0.0.1",
        "--cluster-node-timeout",
        "2000",
    ])
}
