// Package setup describes what is done on the nodes of a request after they were created: the steps
// of each node, in stages that all nodes of the request begin together.
//
// A request has Services for each node: steps as written, with parameters and relations to other
// nodes. Plan orders the steps of all nodes and fills in what is known only after the binding. Its
// result, a list of Step for each node, is what the aggregate stores and what a provider carries
// out: package inventory/local/setup does so inside a node.
package setup
