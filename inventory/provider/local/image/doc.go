// Package image keeps root file systems of nodes, made from this host, folders,
// tarballs or Debian releases. Only root can enter its folder:
//
//	NAME@HASH/     the files of an image; never changed, since overlays of running nodes use it
//	NAME           a symbolic link to NAME@HASH
//	.lock          held while names change
//	.new-RANDOM/   being built while its lock is held; otherwise left by a crash
//	.gone-RANDOM/  being removed
//
// An image gets its name only when it is complete and written to disk.
//
// The image "host" is made of this host: its /usr is shared read-only, and the rest is a
// skeleton built from a list of allowed files (allowed.go). The skeleton contains nothing
// that an operator may have changed. A file of /etc is copied only if root owns it and every
// user can read it. In addition the file must have the content of its Debian package, or be
// one of a few files that are never confidential. Other files are generated. The skeleton
// does not contain accounts of people, passwords, keys, names of hosts and networks,
// proxies, the operator's certificates, cron jobs, units, package sources, /usr/local,
// /home, /root, /opt or /srv.
//
// Other images are made of a folder or a tarball, or by mmdebstrap. Owners, modes,
// capabilities and hard links are copied. Devices, sockets and pipes are left out, symbolic
// links are never followed, and nothing is written outside the image's folder.
//
// # Decisions
//
//   - /etc: only files of a list are copied, and only as their Debian packages ship them, so that
//     no secret of the host gets into an image: [allowed].
//   - certificate authorities: only those of Debian's package that the host trusts, because an
//     authority of the operator could certify any name: [skeleton.certificates].
package image
