// Package experiment creates, changes and deletes the slivers of one slice, as a client
// of an aggregate.
//
//	request, request before, slivers ── Compare ──> Plan
//	Plan ── Experiment.Preview ──> asks the aggregate, before nodes are deleted, if it can do so
//	Plan ── Experiment.Clear ──> Delete, and waits until the slivers no longer exist
//	Plan ── Experiment.Allocate ──> Allocate, which also changes nodes in place
//	slice ── Experiment.Run ──> Provision … geni_start, and waits
//	manifest ── ReadManifest ──> nodes with their logins ── SSHConfig ──> a file for OpenSSH
//
// AnsibleInventory, JSON and RADL describe the nodes for other programs.
//
// The caller stores the request from which the slivers were created, for the next Compare. The
// caller stores the new request after Clear and before Allocate, because the slivers that then remain
// are the same in the old and the new request; if Experiment.Changes, after Allocate.
//
// A manifest and the answers come from an aggregate that may be hostile. So SSHConfig
// contains their values only if these have no special meaning to OpenSSH, and AnsibleInventory
// contains only names and addresses, since Ansible evaluates texts.
//
// No RSpec extension contains the host keys of a node. So OpenSSH trusts the first key that it
// sees of a sliver (StrictHostKeyChecking accept-new), stores that key under a name that only
// this sliver has, and refuses any other key. An attacker between client and node at the first
// login is not detected.
//
// The package keeps no files.
package experiment
