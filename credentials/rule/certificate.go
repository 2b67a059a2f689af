package rule

// Rules for certificates (package credentials/cert). The comment of a rule has the numbers
// of the attacks that the rule prevents, as in the tests of package credentials.
const (
	Anchored             Rule = "a chain leads to an anchor"                               // 7, 9
	HasURN               Rule = "a certificate contains a URN"                             // 32
	URNsWellFormed       Rule = "each URN of a certificate is well formed"                 // 25, 32
	SingleURN            Rule = "a certificate contains only one URN"                      // 32
	CertificateExpired   Rule = "a certificate has not expired"                            // 14, 35
	CertificateStarted   Rule = "a certificate is already valid"                           // 14
	CertificateSignature Rule = "a certificate is signed by the key of its issuer"         // 7, 20
	CertificateDigest    Rule = "a certificate is not signed with SHA-1"                   // 20
	IssuerIsCA           Rule = "an issuer is a CA"                                        // 11
	IssuerIsAuthority    Rule = "an issuer is an authority"                                // 10, 11
	IssuerKeyUsage       Rule = "the key usage of an issuer allows signing certificates"   // 11
	PathLength           Rule = "an issuer's path length limit is kept"                    // 11
	ChainLength          Rule = "a chain has at most the allowed length"                   // 23
	SearchLength         Rule = "a chain is found with few signature checks"               // 23
	Budget               Rule = "a call stays within its budget of signature checks"       // 23
	Namespace            Rule = "an issuer's authority covers the names that it certifies" // 12, 13, 32
	CriticalExtensions   Rule = "every critical extension of a certificate is supported"   // 32
	MinKeySize           Rule = "a key is large enough"                                    // 20
	MaxKeySize           Rule = "a key is not too large"                                   // 23
	KeyKind              Rule = "a key is of an accepted kind"                             // 20
	NotRevoked           Rule = "no certificate of a chain is revoked"                     // 33
	NoTrailingData       Rule = "a certificate has no trailing data"                       // 33
	CertificateSize      Rule = "certificates are not too large"                           // 23
	CertificateCount     Rule = "not too many certificates"                                // 23
)
