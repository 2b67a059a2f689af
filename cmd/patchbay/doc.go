// Command patchbay is a GENI/Fed4FIRE aggregate manager and the tools of its
// operators and experimenters.
//
// For experimenters:
//
//	up         create an experiment, on a site of the user's own if no other is named
//	ssh        log in to a node of it
//	status     show the user's experiments
//	extend     keep an experiment for longer
//	export     describe the nodes of an experiment for Ansible, OpenSSH and others
//	down       delete the nodes of an experiment
//	share      share a slice, and the logins on its nodes, with another user
//	login      become a member of an authority, with an invitation
//	call       call an aggregate manager, this one or any other
//	demo       run a whole experiment, as a demonstration
//
// To set up and maintain a site:
//
//	init       create a site: configuration, inventory, keys, trial authority
//	serve      serve it
//	check      find mistakes in a site or an RSpec
//	reload     make a running server read its inventory again
//	backup     back up the database; restore restores it
//	move       declare that a copied site is now the original
//
// To operate a site:
//
//	slices, slivers, nodes, tasks, journal, usage    list
//	manifest   print the manifest of a slice
//	who        find who used an IP address
//	release    delete slivers of users; renew changes the end of leases
//	drain      take components out of service; undrain puts them back
//	maintenance, lockdown                            stop new reservations
//	shutdown   stop a slice, and keep its nodes for inspection
//	thaw       lift the shutdown of a slice
//
// Users and slices of the trial authority: user, slice, delegate, tool, authority. Documents:
// probe, compile, draw, guide. Others: version, help, completion, and the help topic patterns.
//
// A site is a folder:
//
//	patchbay.yaml          the configuration (site.Config)
//	inventory.yaml         the components that the site offers
//	policy.yaml            which users may reserve what
//	maintenance.yaml       lockdown, planned maintenance, components out of service
//	request.xml            a sample request
//	trusted/*.pem          the authorities whose users may call; read again after a change
//	providers/NAME.prov    executables that create slivers
//	server-*.pem           the server's certificates and keys
//	state.db               the database
//	audit.log              the audit log: calls, changes, and which user had an address
//	admin.sock             the socket for operators and providers, while the server runs
//	authority/             the trial authority: keep it private
//	authority.db           its members, projects and slices
//	library/               the site's own types of blueprints
//	catalogue/             files for the steps of a node's setup
//	tools/NAME/            the files of a tool, which may speak for users
//	users/NAME/            the files of a trial user: keys, credentials, omni_config, aggregate.yaml
//
// For each slice, the command "up" stores in the user's folder slices/NAME.request.xml and
// NAME.manifest.xml, and NAME.request.xml.new until a change has succeeded. It also stores
// ssh_config and known_hosts for OpenSSH. A user's own site is the folder patchbay in
// XDG_STATE_HOME.
//
// Packages experimenter, site, operator, authority and document have the commands, with their
// flags and output. Each command has an options struct, listed in commands.go of its package. This
// package has the root command, help, version, guides and manual pages, and the tests that run
// commands in the process of the test. Package am/site opens and serves the site.
//
// Exit status: 0 success; 1 a failure, also a call that the aggregate
// refused; 2 wrong usage or configuration.
package main
