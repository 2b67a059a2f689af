// Package trial is a private authority that issues users, tools, slices and
// credentials for a site without a federation.
//
// An Authority is one self-signed CA named urn:publicid:IDN+NAME+authority+sa,
// which signs the certificates of users, tools and slices and, as slice and member
// authority, their credentials. Trusting its certificate is all a server needs:
// ours, and the reference implementation's.
//
//	DIR/authority.pem, authority.key    the authority
//	DIR/users/NAME.pem, .key, .ssh      certificate and keys of a user
//	DIR/users/NAME.pub                  instead of .ssh: the user's own SSH keys
//	DIR/tools/NAME.pem, .key            certificate and key of a tool
//	DIR/slices/NAME.pem                 certificate of a slice
//
// Keys lie there unencrypted, readable by their owner alone. Names are folded
// to lower case in file names, because they compare without case; asked again
// for one of them the authority gives the same certificates and keys, and
// fresh credentials.
//
// Everything is RSA with 2048 bits and SHA-256, which the oldest client reads;
// SSH keys are Ed25519. Certificates carry URN, UUID and email, a random serial
// number, and end with the authority's own. A user credential has the
// privileges refresh, resolve and info, a slice credential refresh, embed,
// bind, control and info, all of them to be delegated, as gcf's have.
//
// What a user signs, and no authority, makes the rest of a federation: Delegate
// hands a credential on to somebody else, and SpeaksFor lets a tool act for the
// user.
//
// Nothing that serves imports it. It answers the GENI AM API's sections on
// certificates and credentials from the issuing side.
//
// # Decisions
//
//   - package of its own: it holds the key of an authority, so the server never imports it:
//     [Authority].
package trial
