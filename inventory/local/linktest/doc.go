// Package linktest measures throughput, delay and loss of a link between two
// nodes, in each direction. The testbed's program is in every node, so nothing has
// to be installed:
//
//	server$ patchbay-linktest serve
//	client$ patchbay-linktest server --time 3s
//
// Each measurement is a TCP connection that begins with a line of JSON from the
// client and one from the server. Numbered datagrams are sent in parallel. The
// receiver measures, so that data in queues of the sender does not count:
//
//   - a TCP stream without the first third of its time. The rate on the line is
//     computed from the size of segments and their headers;
//   - echoes, with the kernel's time of arrival. The time that the server took to
//     answer is subtracted. If both ends are on one host, and so have one clock, each
//     direction has its own result;
//   - paced datagrams, also as bursts that the kernel cuts into packets
//     (UDP_SEGMENT). The average number of packets lost in a row shows whether
//     single packets or whole bursts were lost.
//
// Both ends may be hostile. So lines, times, rates and numbers of packets are
// limited. Datagrams are sent only to the address of a TCP connection, and an echo
// is never longer than its request.
//
// # Decisions
//
//   - datagrams from the server: it sends them only to the address of the client's TCP connection,
//     so that no client can direct them at another host: [Serve].
package linktest
