// Package trial is a private authority that issues users, tools, slices and
// credentials for a site without a federation.
//
// An Authority is one self-signed CA named urn:publicid:IDN+NAME+authority+sa,
// which signs the certificates of users, tools and slices and, as slice and member
// authority, their credentials. Any server that trusts the authority's certificate
// accepts them: Patchbay's, and the reference implementation's.
//
//	DIR/authority.pem, authority.key    the authority
//	DIR/users/NAME.pem, .key, .ssh      certificate and keys of a user
//	DIR/users/NAME.pub                  instead of .ssh: the user's own SSH keys
//	DIR/tools/NAME.pem, .key            certificate and key of a tool
//	DIR/slices/NAME.pem                 certificate of a slice
//
// The keys are not encrypted; only the owner of the files can read them. File names are in
// lower case, because names are compared without case. For an existing name the authority
// returns the same certificates and keys, with new credentials.
//
// Keys are RSA with 2048 bits and signatures use SHA-256, which the oldest clients support.
// SSH keys are Ed25519. A certificate contains URN, UUID, email and a random serial number,
// and expires with the authority's. A user credential has the privileges refresh, resolve
// and info. A slice credential has refresh, embed, bind, control and info. All of them may
// be delegated, as in gcf's credentials.
//
// Users sign two kinds of credential themselves: Delegate passes a credential on to another
// user or tool, and SpeaksFor lets a tool act for the user.
//
// The server never imports the package. It implements the sections of the GENI AM API on
// certificates and credentials for an issuer.
//
// # Decisions
//
//   - package of its own: it holds the key of an authority, so the server never imports it:
//     [Authority].
package trial
