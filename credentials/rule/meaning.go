package rule

// Of the caller and what it presents (credentials). Numbers are those of the attacks.
const (
	CallerKind      Rule = "a caller is a user, a tool or an authority" // 32
	AuthorityAlone  Rule = "an authority has no rights of its own"      // 32
	Presented       Rule = "a credential is presented"                  // 2; never switched off
	CredentialCount Rule = "not too many credentials"                   // 23
	Label           Rule = "a credential is labelled as clients do"     // 16
)

// Of what a credential says (credentials).
const (
	Kind              Rule = "a credential is of a kind that is read"        // 16
	OneReading        Rule = "a credential can be read in one way"           // 16, 29
	BlankBetween      Rule = "no text stands between elements"               // 18, 24
	ExpiryOffset      Rule = "the offset of an expiry exists"                // 15
	CredentialExpired Rule = "a credential has not expired"                  // 15, 29
	NameWritten       Rule = "a name is written as it is in its certificate" // 17, 25
	OwnerCalls        Rule = "the owner is the caller"                       // 16, 31
	TargetAsked       Rule = "the target is what the call is about"          // 13, 16, 25
	TargetIsSlice     Rule = "what is asked for is a slice"                  // 16
	RightOverSlice    Rule = "the right asked for is one over slices"        // 16
	SignerIsAuthority Rule = "the signer is an authority"                    // 10
	SignerCovers      Rule = "the signer speaks for the target"              // 12, 13
	SignerSigns       Rule = "the signer is one of those that sign"          // 12
)

// Of privileges (credentials).
const (
	Privilege      Rule = "a privilege allows the method"              // 18
	PrivilegeForm  Rule = "a privilege has one name"                   // 18
	PrivilegeName  Rule = "the name of a privilege is short and plain" // 18, 25
	PrivilegeOnce  Rule = "a privilege is listed once"                 // 18
	PrivilegeCount Rule = "not too many privileges"                    // 23
	CanDelegate    Rule = "can_delegate is true or false"              // 18
)

// Of delegation (credentials).
const (
	OnlyPrivileges Rule = "only privileges are delegated"                        // 19
	OneKind        Rule = "a parent is of the same kind"                         // 19
	DelegatorKind  Rule = "only users and tools delegate"                        // 19
	DelegatorName  Rule = "who delegates is the owner of the parent"             // 19
	DelegatorKey   Rule = "who delegates has the key of the owner of the parent" // 19
	SameTarget     Rule = "the target stays what it is in the parent"            // 19
	NoLonger       Rule = "what is delegated lasts no longer than its parent"    // 19
	Delegable      Rule = "only what may be delegated is"                        // 19
)

// Of speaking for a user (credentials).
const (
	SpokenIsUser    Rule = "who is spoken for is a user"                             // 29
	SpeakerListed   Rule = "who speaks for users is listed, where there is a list"   // 29
	SpeakerKind     Rule = "only tools and authorities speak for users"              // 29
	SpeechOfUser    Rule = "the word is that of the user who is spoken for"          // 29
	SpeechOfTool    Rule = "the word is for the key that calls"                      // 29, 30
	SpeechNamesTool Rule = "the word is for the name that calls"                     // 29
	SpeechByUser    Rule = "the word is signed by a user"                            // 29
	SpeechByTarget  Rule = "the word is signed by the user it is about"              // 29
	OneSignature    Rule = "the word has one signature"                              // 29
	HeadSigns       Rule = "the head of the rule is the key that signed it"          // 29, 30
	RoleOfSigner    Rule = "the role of the rule is named by the key that signed it" // 29, 30
	RoleSpeaks      Rule = "the role of the rule is that of speaking"                // 29
	OneTail         Rule = "the rule has one tail"                                   // 29
	TailIsKey       Rule = "the tail of the rule is a key, not a role"               // 29
	ABACVersion     Rule = "the rule is of the version that is read"                 // 29
	ABACForm        Rule = "the rule holds nothing else"                             // 26, 29
)
