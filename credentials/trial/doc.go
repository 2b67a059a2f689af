// Package trial is a private authority that issues users, tools, slices and
// credentials for a site without a federation.
//
// An Authority is a self-signed root named urn:publicid:IDN+NAME+authority+root, and two
// certificates that the root has issued: that of the slice authority (sa), and that of the
// member authority (ma). The sa signs certificates and credentials of slices, the ma those of
// users and tools. Any server that trusts the root's certificate accepts them: Patchbay's,
// and the reference implementation's. Only Create needs the root's key, so it can be moved
// away. The root of an earlier version is named sa, and has issued the users' certificates.
//
//	DIR/authority.pem, authority.key    the root
//	DIR/sa.pem, sa.key                  the slice authority
//	DIR/ma.pem, ma.key                  the member authority
//	DIR/users/NAME.pem, .key, .ssh      certificate and keys of a user
//	DIR/users/NAME.pub                  instead of .ssh: the user's own SSH keys
//	DIR/tools/NAME.pem, .key            certificate and key of a tool
//
// The keys are not encrypted; only the owner of the files can read them. A user who has made
// their key on another machine has no .key here (CertifyUser). File names are in lower case,
// because names are compared without case. For an existing name the authority returns the same
// certificates and keys, with new credentials. Package am/authority keeps everything that
// changes: members, slices and their roles.
//
// Keys are RSA with 2048 bits and signatures use SHA-256, which the oldest clients support.
// SSH keys are Ed25519. A certificate contains URN, UUID, email and a random serial number of
// 128 bits, and expires with the root's. A user credential has the privileges refresh, resolve
// and info. All privileges may be delegated, as in gcf's credentials.
//
// Users sign two kinds of credential themselves: Delegate passes a credential on to another
// user or tool, and SpeaksFor lets a tool act for the user.
//
// It implements the sections of the GENI AM API on certificates and credentials for an
// issuer.
//
// # Decisions
//
//   - three keys: the server needs the keys of sa and ma, but never that of the root. So the root
//     survives the loss of a server: [Create].
//   - slices share one public key, because nothing uses the private half, and because a call must
//     not generate keys: [Authority.NewSlice].
package trial
