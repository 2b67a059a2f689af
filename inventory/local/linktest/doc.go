// Package linktest measures throughput, delay and loss of a link between two
// nodes, in each direction. The testbed's program is in every node, so nothing has
// to be installed:
//
//	server$ patchbay-linktest serve
//	client$ patchbay-linktest server --time 3s
//
// Each measurement is a TCP connection that begins with a line of JSON from the
// client and one from the server; numbered datagrams go beside it. Who receives
// measures, so that no queue of the sender is counted:
//
//   - a TCP stream, from a third of its time on, with the rate on the line as it
//     follows from the size of segments and their headers;
//   - echoes, with the kernel's time of arrival; the time that the server needed
//     is taken off. On one host, with one clock, each direction is told alone;
//   - paced datagrams, also as bursts that the kernel cuts into packets
//     (UDP_SEGMENT). The average length of runs of lost packets tells whether
//     packets were lost or whole bursts.
//
// Both ends may be hostile: lines, times, rates and numbers of packets are
// bounded, datagrams are only sent to where a TCP connection came from, and an
// echo is never longer than what asked for it.
//
// # Decisions
//
//   - datagrams of the server: it sends them only to the address of the TCP connection, so that it
//     cannot be used against others: [Serve].
package linktest
