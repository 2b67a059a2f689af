// Package image keeps root file systems of nodes, made from this host, folders,
// tarballs or Debian releases. Only root can enter its folder:
//
//	NAME@HASH/     the files of an image; never changed, for overlays of running nodes lie on it
//	NAME           a link to NAME@HASH
//	.lock          held while names change
//	.new-RANDOM/   being built, under a lock of its own; without it, left by a crash
//	.gone-RANDOM/  being removed
//
// An image appears under its name when it is whole and on the disk, or not at all.
//
// "host" is made of this host: its /usr is shared, read-only, and all else comes
// from a skeleton that is built by a list of what may be in it (allow.go), never
// by a list of what may not. Of what an operator may have changed it holds
// nothing: a file of /etc is copied when it is what its Debian package ships, or
// written by us, or one of a few that are public everywhere; and only if it
// belongs to root and everybody may read it. What it does not hold: accounts of
// people, passwords, keys, names of hosts and networks, proxies, the operator's
// certificates, cron, units, package sources, /usr/local, /home, /root, /opt, /srv.
//
// Other images are made of a folder, a tarball, or by mmdebstrap. What comes from
// outside is copied with owners, modes, capabilities and hard links; devices,
// sockets and pipes are left out, links are never followed, and nothing is written
// outside the image's folder.
//
// # Decisions
//
//   - /etc: a list of the host's files, and only as their Debian packages ship them, so that no
//     secret of the host gets in: [allowed].
//   - certificate authorities: only those of Debian's package that the host trusts, because an
//     operator's own could vouch for any name: [skeleton.certificates].
package image
