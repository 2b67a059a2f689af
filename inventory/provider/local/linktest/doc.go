// Package linktest measures the network between two nodes with ping and iperf3. Both are
// the host's programs, which run in the nodes' network namespaces: images need none.
//
// Root of a node decides what these programs read, and may also answer in place of the other
// end. So they run without rights, under the nodes' filter of system calls, for a limited
// time; they see the host's /usr and none of its processes. Their output is limited and
// checked.
package linktest
