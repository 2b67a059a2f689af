// Package step describes the setup of the nodes of a request after they were created: the steps
// of each node, in stages that all nodes of the request begin together.
//
// A request has Services for each node: steps as written, with parameters and relations to other
// nodes. Plan orders the steps of all nodes and fills in the values that are known only after the
// binding. It returns a list of Step for each node. The aggregate stores these lists, and providers
// carry them out; package inventory/node/setup does so inside a node.
//
// The forms of a step on its way are: Services (as written), then from Plan the Step in am.Sliver.Setup, from
// provider.NewNode an item of the attribute setup, from steprunner.ParseSteps a setup.Step, and in a
// setup.Assignment what the node gets. The results come back as the attribute services.
package step
