// Package fabric makes the network of a slice: bridges, interfaces, shaping and
// counters.
//
// # What lies where
//
// Each slice has a namespace of its own, kept by a bind mount in
// Folder/slices/SLICE. In it a device is called by a letter and a hash, and its
// alias tells the link and the end in words:
//
//	p  the host's side of an interface; the other side is the node's eth1, eth2, …
//	b  the bridge of a link
//	q  a bridge of one end, where something stands between the end and the link
//	s  a pair of devices between b (s) and q (u) that cuts what the kernel sends
//	u  in one piece into the packets that go over the wire
//	t  the end of the relay, a TAP device
//	x  the way to a shared VLAN, whose bridge is in a namespace of its own, kept
//	   in Folder/shared
//	y  the other side of x, in that namespace
//
// # The means
//
//	bridge         p - b                   nothing is asked
//	bridge+tbf     p - b                   capacity: tbf at p, towards the node
//	…+netem        p - q - u - s - b       latency and loss: netem at p
//	relay          p - q - t               latency, loss, and pairs that differ; with
//	                                       tbf at p where capacity is of the end
//
// What is asked of frames from one end to another is a [Shape]. Where all that
// arrives at an end is asked the same, the end's port shapes it, and a capacity
// holds for all that arrives together. Where it differs, the relay shapes it pair
// by pair.
//
// # What goes
//
// Removing a device the kernel waits for all processors, with the lock of all
// networks of the host, so devices go together; for a bridge it does so once more
// for each, so these go few at a time. TAPs stay when the relay ends, for each
// would go by itself with its file.
//
// # What nodes can do
//
// Their side of an interface is theirs. Nothing is read from a node's namespace,
// and what its root does there concerns nobody else: shaping is on the host's side,
// no device of the fabric has an address or answers, and bridges do not learn
// without bounds.
//
// # Decisions
//
//   - shaping: the host's side of the receiving port shapes. Pairs of a LAN with different
//     properties need the switch process: [decide].
//   - loss: large segments are cut into packets before netem, so that single packets are lost:
//     [network.cut].
//   - learned addresses: a bridge learns 16,384, and none before Linux 6.8, because a node could
//     fill the host's memory: [network.boundLearning].
//   - circling frames: they are limited where they leave the node, because a ring of links would
//     fill the host's processors: [inflowRate].
//   - removal of devices: all together, bridges last and eight at a time, because the kernel holds
//     its network lock for each: [Host.removeDevices].
package fabric
