// Command patchbay is a GENI/Fed4FIRE aggregate manager and the tools of its
// operators and experimenters.
//
//	patchbay up REQUEST    make an experiment, on a site of one's own where no other is named
//	patchbay ssh NODE      log in to a node of it
//	patchbay status        show one's experiments
//	patchbay extend TIME   keep one for longer
//	patchbay down          give it back
//	patchbay init DIR      make a site: configuration, inventory, keys, trial authority
//	patchbay serve         serve it
//	patchbay user NAME     make a user of the trial authority, ready for clients
//	patchbay slice NAME    make a slice and its owner's credential
//	patchbay call METHOD   call an aggregate manager, this one or any other
//	patchbay demo          see the whole life of an experiment
//	patchbay check         explain what is wrong with a site or an RSpec
//	patchbay draw FILE     draw an RSpec, in the terminal or as SVG
//	patchbay move          make a copy of a site the site
//	patchbay version       print the version
//
// A site is a folder:
//
//	patchbay.yaml          the configuration (site.Config)
//	inventory.yaml         what the site offers
//	request.xml            what an experimenter may ask for, a sample
//	trusted/*.pem          whose users may come; re-read when it changes
//	providers/NAME.prov    executables that make slivers
//	server-*.pem           the server's certificates and keys
//	state.db               what was promised
//	admin.sock             where providers get manifests, while it is served
//	authority/             the trial authority: keep it private
//	users/NAME/            what a trial user needs: keys, credentials, omni_config, where the site is
//
// In a user's folder up keeps, for each slice, slices/NAME.request.xml and
// NAME.manifest.xml, and ssh_config and known_hosts for OpenSSH. A site of one's own is
// the folder patchbay in XDG_STATE_HOME.
//
// This package knows flags; package am/site opens and serves the site. Every
// subcommand is an options struct in a file of its own. The first word of a file's
// name is the group of its commands: site, operations, experimenter, documents, or
// authority, which is the trial authority.
//
// Exit status: 0 success; 1 it did not work, also a call that the aggregate
// refused; 2 wrong usage or configuration.
package main
