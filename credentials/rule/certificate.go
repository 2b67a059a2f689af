package rule

// Of certificates (credentials/cert). Numbers are those of the attacks.
const (
	Anchored             Rule = "a chain leads to an anchor"                       // 7, 9
	NamesSomebody        Rule = "a certificate names somebody"                     // 32
	NamesWell            Rule = "each URN of a certificate is well formed"         // 25, 32
	NamesOne             Rule = "a certificate names one URN"                      // 32
	CertificateExpired   Rule = "a certificate has not expired"                    // 14, 35
	CertificateBegun     Rule = "the time of a certificate has begun"              // 14
	CertificateSignature Rule = "a certificate is signed by the key of its issuer" // 7, 20
	CertificateDigest    Rule = "a certificate is not signed with SHA-1"           // 20
	IssuerIsCA           Rule = "an issuer is a CA"                                // 11
	IssuerIsAuthority    Rule = "an issuer is an authority"                        // 10, 11
	IssuerKeyUsage       Rule = "the key of an issuer is for signing certificates" // 11
	PathLength           Rule = "an issuer has no more below it than it may have"  // 11
	ChainLength          Rule = "a chain is short"                                 // 23
	SearchLength         Rule = "a chain is found soon"                            // 23
	Budget               Rule = "a call costs no more than is for one"             // 23
	Namespace            Rule = "an issuer speaks for those whom it names"         // 12, 13, 32
	Evaluated            Rule = "what is critical in a certificate is evaluated"   // 32
	KeySize              Rule = "a key is large enough"                            // 20
	KeyNotHuge           Rule = "a key is not too large"                           // 23
	KeyKind              Rule = "a key is of a kind that is accepted"              // 20
	NotRevoked           Rule = "nothing in a chain is revoked"                    // 33
	NothingAdded         Rule = "nothing stands behind a certificate"              // 33
	CertificateSize      Rule = "certificates are not too long"                    // 23
	CertificateCount     Rule = "certificates are not too many"                    // 23
)
