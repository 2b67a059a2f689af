package rule

// Rules for the caller and the presented credentials (package credentials). The comment of
// a rule has the numbers of the attacks that the rule prevents, as in the package's tests.
const (
	CallerKind      Rule = "a caller is a user, a tool or an authority"      // 32
	AuthorityAlone  Rule = "an authority has no rights of its own"           // 32
	Presented       Rule = "a credential is presented"                       // 2; never switched off
	CredentialCount Rule = "not too many credentials"                        // 23
	Label           Rule = "a credential has a known type and version label" // 16
)

// Rules for the content of a credential.
const (
	Kind              Rule = "a credential is of a supported type"             // 16
	Unambiguous       Rule = "a credential has only one interpretation"        // 16, 29
	BlankBetween      Rule = "there is no text between elements"               // 18, 24
	ExpiryOffset      Rule = "an expiry has a valid offset from UTC"           // 15
	CredentialExpired Rule = "a credential has not expired"                    // 15, 29
	MatchingName      Rule = "a name matches its certificate"                  // 17, 25
	CallerIsOwner     Rule = "the owner is the caller"                         // 16, 31
	MatchingTarget    Rule = "the target is the slice of the call"             // 13, 16, 25
	TargetIsSlice     Rule = "the requested object is a slice"                 // 16
	RightOverSlice    Rule = "the requested right is a right over slices"      // 16
	SignerIsAuthority Rule = "the signer is an authority"                      // 10
	SignerCovers      Rule = "the signer's authority covers the target"        // 12, 13
	SignerSigns       Rule = "the signer is listed as a signer of credentials" // 12
)

// Rules for privileges.
const (
	Privilege      Rule = "a privilege allows the method"                      // 18
	PrivilegeForm  Rule = "a privilege has one name"                           // 18
	PrivilegeName  Rule = "the name of a privilege is short and visible ASCII" // 18, 25
	PrivilegeOnce  Rule = "a privilege is listed once"                         // 18
	PrivilegeCount Rule = "not too many privileges"                            // 23
	CanDelegate    Rule = "can_delegate is true or false"                      // 18
)

// Rules for delegation.
const (
	OnlyPrivileges Rule = "only privileges are delegated"                           // 19
	OneKind        Rule = "a parent is of the same type"                            // 19
	DelegatorKind  Rule = "only users and tools delegate"                           // 19
	DelegatorName  Rule = "the delegator is the owner of the parent"                // 19
	DelegatorKey   Rule = "the delegator has the key of the parent's owner"         // 19
	SameTarget     Rule = "the target is the target of the parent"                  // 19
	NoLonger       Rule = "a delegated credential expires no later than its parent" // 19
	Delegable      Rule = "the parent allows its privileges to be delegated"        // 19
)

// Rules for speaking for a user.
const (
	SpeakingForUser    Rule = "geni_speaking_for names a user"                                     // 29
	SpeakerListed      Rule = "the speaker is on the operator's list of speakers, if there is one" // 29
	SpeakerKind        Rule = "only tools and authorities speak for users"                         // 29
	PermissionOfUser   Rule = "the speaks-for credential is of the user in geni_speaking_for"      // 29
	PermissionForKey   Rule = "the speaks-for credential is for the caller's key"                  // 29, 30
	PermissionForTool  Rule = "the speaks-for credential is for the caller's name"                 // 29
	PermissionByUser   Rule = "the speaks-for credential is signed by a user"                      // 29
	PermissionByTarget Rule = "the speaks-for credential is signed by its target"                  // 29
	OneSignature       Rule = "the speaks-for credential has one signature"                        // 29
	HeadSigns          Rule = "the head of the ABAC rule is the signer's key"                      // 29, 30
	RoleOfSigner       Rule = "the role of the ABAC rule names the signer's key"                   // 29, 30
	RoleSpeaks         Rule = "the role of the ABAC rule is speaks-for"                            // 29
	OneTail            Rule = "the ABAC rule has one tail"                                         // 29
	TailIsKey          Rule = "the tail of the ABAC rule is a key, not a role"                     // 29
	ABACVersion        Rule = "the ABAC rule has a supported version"                              // 29
	ABACForm           Rule = "the ABAC rule contains only allowed elements"                       // 26, 29
)
