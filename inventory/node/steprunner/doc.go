// Package steprunner runs the steps of a node's setup, from outside the node: installs, executes and
// user data, in the order of their stages. Inside the node, package setup does them.
//
// A Journal says what has begun and what has ended. It records a step as running before the step is
// started. Once the node has confirmed the start, a Runner only waits for the step's end. So no step
// runs twice, even if the program is killed. The rules are those of the sections Services and Stages of
// PROVIDER.md.
//
// # Decisions
//
//   - stages: a lower stage ends the steps above it, and a higher one runs failed steps again, in
//     an attempt with a higher number: [Journal.SetStage].
//   - operations: the steps for Start wait again after the node was switched off, which is recorded
//     before it happens; those for Stop and Uninstall have a minute: [Journal.SwitchOff].
//   - time of installs: 10 minutes each, and none begins after 30 minutes in a stage, because the manager
//     gives up after an hour: [InstallsTime].
package steprunner
