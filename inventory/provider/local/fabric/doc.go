// Package fabric makes the network of a slice: bridges, interfaces, shaping and
// counters.
//
// Each slice has a network namespace with the bridges of its links and the host's side
// of all interfaces. Root of a node cannot change the shaping there.
//
// # Devices
//
// A bind mount at Folder/slices/SLICE keeps the namespace of a slice alive. The name of
// a device is a letter and a hash; its alias holds the names of link and end:
//
//	p  the host's side of an interface; the other side is the node's eth1, eth2, …
//	b  the bridge of a link
//	q  a bridge of one end, if there are devices between the end and the link
//	s  the side in b of a veth pair that joins b and q; the pair splits large
//	   segments of the kernel into single packets
//	u  the side in q of that pair
//	t  the port of the vswitch, a TAP device
//	x  the port to a shared VLAN, whose bridge is in another namespace, at
//	   Folder/shared
//	y  the other side of x, in that namespace
//
// # Emulators
//
//	bridge         p - b                   no properties
//	bridge+tbf     p - b                   capacity: tbf at p, towards the node
//	…+netem        p - q - u - s - b       latency and loss: netem at p
//	vswitch        p - q - t               latency, loss, and properties that differ
//	                                       between pairs; tbf at p for the capacity of an end
//
// A [Shape] holds the properties of frames from some ends to others. If the properties are
// equal for all frames that arrive at an end, the end's port shapes these frames, and a
// capacity applies to their sum. If the properties differ, the vswitch shapes each pair.
//
// # Removal
//
// To remove a device, the kernel waits for all processors and holds the lock of all
// networks of the host. So devices are removed together. For each bridge the kernel
// waits again, so bridges are removed a few at a time. TAPs persist when the vswitch
// ends, since otherwise each would be removed separately when its file is closed.
//
// # Security
//
// Root of a node controls its side of an interface and nothing else. The fabric reads
// nothing from a node's namespace. Shaping is on the host's side. No device of the fabric
// has an IP address or answers, and bridges limit how many addresses they learn.
//
// # Decisions
//
//   - shaping: the host's side of the receiving port shapes. Pairs of a LAN with different
//     properties need the switch process: [decide].
//   - loss: large segments are cut into packets before netem, so that single packets are lost:
//     [network.segmentBetween].
//   - learned addresses: a bridge learns at most 16,384, because a node could fill the host's
//     memory. Linux before 6.8 has no such limit, and bridges learn none there:
//     [network.limitLearning].
//   - circling frames: frames that can circle are limited where they leave the node, because in a
//     ring of links they would use up the host's processors: [inflowRate].
//   - SSH from shared VLANs: dropped where it enters the slice, because port 22 of nodes is for
//     logins from node to node within a slice: [sshPort].
//   - removal of devices: all together, but bridges last and eight at a time, because the kernel
//     holds its network lock while it removes a bridge: [Host.removeDevices].
package fabric
