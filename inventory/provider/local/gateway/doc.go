// Package gateway is the SSH server in front of all nodes, in a process without rights.
//
// Clients reach a node in three ways: at the node's own port, through the gateway
// account, which only forwards (ProxyJump), and at port 22 from other nodes of the
// slice.
//
//	client -> gateway process -> agent in the node (or the Address of another provider's node)
//	             |  orders, connections
//	          Manager in "up"
//
// The gateway runs as a process of its own: with its own user id, without
// capabilities, under seccomp. The Manager, in "up" as root, starts it, holds the
// endpoints and listeners, and restarts it when it dies; connections wait in the
// listeners' queues meanwhile. The gateway asks the Manager for connections to agents
// and to other providers' nodes, and gets them only for nodes with an endpoint. When
// the Manager closes, the gateway accepts no more connections and ends with its last
// session.
//
// All clients are untrusted. There are limits on connections that have not logged in,
// on logins, channels, requests and unread data. At a limit, the user with the most
// connections or data loses some of them first. Inside its node every account has the
// same rights; outside it has none.
//
// # Decisions
//
//   - open files: the gateway opens none. "up" opens the connections to agents and addresses, and
//     the listeners, so that a captured gateway reaches nothing else: [Manager.connect].
//   - unread data: 48 MB for a slice and 128 MB in all; beyond that the connection with the most
//     is closed: [maxUnread].
//   - proof of a login: it uses the endpoint's own listener, and a key that only the gateway
//     process knows: [Manager.VerifyLogin].
//   - hanging gateway: a gateway that does not reply to a change of endpoints within 10 s is
//     killed, and the next one gets all endpoints: [Manager.SetEndpoint].
//   - time to log in: 20 s, and 2 min after a valid key was offered, because its owner may have to
//     unlock it: [unlockTime].
package gateway
