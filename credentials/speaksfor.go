package credentials

import (
	"slices"
	"strings"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/rule"
)

// permission lets a tool act in the user's name.
type permission struct {
	user    urn.URN
	tool    urn.URN // zero in ABAC, which identifies tools by key
	toolKey keyID
}

const (
	rolePrefix = "speaks_for_"
	howToSpeak = "name a user in geni_speaking_for and present the speaks-for credential that the user signed"
)

// verifyABAC verifies a speaks-for credential in the ABAC form and sets the permission of s. The
// rule must let one tool speak for the user that signed the credential.
func (w *certificateVerifier) verifyABAC(l level, s *statement) error {
	r := l.rule
	named, isSpeaksFor := strings.CutPrefix(r.role, rolePrefix)
	user, isKey := parseKeyID(named)
	signer := keyID(l.Signer.KeyID())
	switch {
	case !isSpeaksFor:
		return refuse(rule.RoleSpeaks, am.CredentialInvalid, "its ABAC rule is about the role %.60q; only speaks-for rules are supported", r.role)
	case l.Signatures != 1:
		return refuse(rule.OneSignature, am.CredentialInvalid, "a speaks-for credential must have one signature, but it has %d", l.Signatures)
	case len(r.tails) != 1:
		return refuse(rule.OneTail, am.CredentialInvalid, "its ABAC rule has %d tails; a speaks-for credential names one tool", len(r.tails))
	case r.tails[0].role != "" || r.tails[0].linking != "":
		return refuse(rule.TailIsKey, am.CredentialInvalid, "its ABAC rule lets the members of a role speak (%.60q); a speaks-for credential names one tool by its key", r.tails[0].role)
	case r.head != signer:
		return refuse(rule.HeadSigns, am.CredentialUntrusted, "the head of its ABAC rule is the key %s, but it is signed with the key %s of %s; only users themselves can let a tool speak for them",
			r.head, signer, l.Signer.Name())
	case !isKey || user != signer:
		return refuse(rule.RoleOfSigner, am.CredentialUntrusted, "its ABAC rule is about the role %.60q, but its signer can only give the role %s%s", r.role, rolePrefix, signer)
	}
	s.permission = &permission{toolKey: r.tails[0].principal}
	return w.verifyUser(l, s)
}

// verifySpeaksFor verifies a speaks-for credential in the older form and sets the permission of s.
// The owner is the tool. The target is the user, which must be the signer.
func (w *certificateVerifier) verifySpeaksFor(l level, s *statement) error {
	tool, user := l.owner[0], l.target[0]
	if err := l.checkNames(); err != nil {
		return err
	}
	switch {
	case l.Signatures != 1:
		return refuse(rule.OneSignature, am.CredentialInvalid, "a speaks-for credential must have one signature, but it has %d", l.Signatures)
	case !l.Signer.URN.Equal(user.URN) || !sameKey(l.Signer, user):
		return refuse(rule.PermissionByTarget, am.CredentialUntrusted, "it lets a tool speak for %s, but is signed by %s; only the user, with the key in the target_gid, can do so",
			user.URN, l.Signer.Name())
	}
	for _, part := range []roleCertificate{{"target", user}, {"owner", tool}} {
		if _, err := w.verify(part, s); err != nil {
			return err
		}
	}
	s.permission = &permission{tool: tool.URN, toolKey: tool.KeyID()}
	if err := w.verifyUser(l, s); err != nil {
		return err
	}
	s.permission.user = user.URN
	return nil
}

// verifyUser stores the signer, which must be a user, in the permission.
func (w *certificateVerifier) verifyUser(l level, s *statement) error {
	if l.Signer.URN.Type != urn.User {
		return refuse(rule.PermissionByUser, am.CredentialUntrusted, "it is signed by %s, which is no user; only users can let a tool speak for them", l.Signer.Name())
	}
	chain, err := w.verify(roleCertificate{"signer", l.Signer}, s)
	if err != nil {
		return err
	}
	s.permission.user, s.issuers = l.Signer.URN, intermediates(chain)
	return nil
}

// speakingFor returns the user that the option geni_speaking_for names, or the zero URN if the
// caller acts in their own name. It fails if the caller's kind, or the operator's list of
// speakers, does not allow this. It does not look for the credential that is needed, too.
func (z *Authorizer) speakingFor(c Caller, option string) (urn.URN, error) {
	u, err := urn.Parse(option)
	switch {
	case option == "" || err == nil && u.Equal(c.URN):
		if c.URN.Type == urn.Authority {
			return urn.URN{}, deny(rule.AuthorityAlone, am.CredentialInvalid, "%s is an authority, which has no rights of its own; connect with the certificate of a user, or %s", c.URN, howToSpeak)
		}
		return urn.URN{}, nil
	case err != nil || u.Type != urn.User:
		return urn.URN{}, deny(rule.SpeakingForUser, am.CredentialMismatch, "geni_speaking_for is %.100q, which is no URN of a user; name the user of a speaks-for credential, or leave the option out", option)
	case z.speakers != nil && !z.speakers[c.URN.Key()]:
		return urn.URN{}, deny(rule.SpeakerListed, am.CredentialUntrusted, "%s is not listed as a speaker for users on this server; ask its operator, or leave geni_speaking_for out", c.URN)
	case z.speakers == nil && c.URN.Type != urn.Tool && c.URN.Type != urn.Authority:
		return urn.URN{}, deny(rule.SpeakerKind, am.CredentialMismatch, "geni_speaking_for names %s, but %s is neither a tool nor an authority, and only these can speak for users; leave the option out", u, c.URN)
	}
	return u, nil
}

// setSpeaker makes the user the owner of the grant and the caller its speaker. It uses the
// first credential that lets the caller speak for the user, and fails without one.
func (g *Grant) setSpeaker(user urn.URN, c Caller, list []examined) error {
	key := keyID(c.Chain[0].KeyID())
	var reasons []Reason
	for i, e := range list {
		err := e.err
		switch {
		case err == nil && e.permission == nil:
			continue
		case err == nil:
			err = e.permission.checkCall(c, key, user)
		}
		if err == nil {
			g.caller, g.speaker, g.speaksFor = e.permission.user, c.URN, e.statement
			g.expires = earlier(g.expires, e.until)
			return nil
		}
		reasons = append(reasons, reasonOf(i+1, err))
	}
	detail, broken := am.CredentialMismatch, rule.Presented
	if len(reasons) > 0 {
		detail = (&DeniedError{reasons}).Detail()
		broken = reasons[slices.IndexFunc(reasons, func(r Reason) bool { return r.Detail == detail })].Rule
	}
	denied := deny(broken, detail, "geni_speaking_for names %s, but no valid speaks-for credential of that user for %s was presented", user, c.URN)
	denied.Reasons = append(denied.Reasons, reasons...)
	return denied
}

// checkCall fails unless the permission is for this user, and for the caller c with this
// key. Every call needs this check, also for a cached credential.
func (s *permission) checkCall(c Caller, key keyID, user urn.URN) error {
	switch {
	case !s.user.Equal(user):
		return refuse(rule.PermissionOfUser, am.CredentialMismatch, "it lets a tool speak for %s, but geni_speaking_for names %s", s.user, user)
	case s.toolKey != key:
		return refuse(rule.PermissionForKey, am.CredentialMismatch, "it lets the key %s speak for %s, but %s is calling with the key %s; have the user sign a credential for this key", s.toolKey, s.user, c.URN, key)
	case !s.tool.IsZero() && !s.tool.Equal(c.URN):
		return refuse(rule.PermissionForTool, am.CredentialMismatch, "it lets %s speak for %s, but %s is calling", s.tool, s.user, c.URN)
	}
	return nil
}
