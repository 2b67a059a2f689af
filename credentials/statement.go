package credentials

import (
	"slices"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/dsig"
	"patchbay/credentials/rule"
)

// statement is the content of one verified credential, with its period of validity.
// Statements are cached, so their strings must be copies: a substring would keep the
// whole document in memory.
type statement struct {
	owner, target urn.URN
	privileges    []privilege
	// permission is the content of a speaks-for credential; nil for other credentials.
	// With a permission, owner, target and privileges are empty.
	permission *permission
	// issuers are the verified certificates between the anchor and the owner or, with a
	// permission, between the anchor and the user.
	issuers []*cert.Certificate
	// since is the time of verification. until is the earliest expiry of the
	// credential, its parents and all certificates of their chains.
	since, until time.Time
	fingerprint  string
	sha1         bool
}

func (s *statement) isValid(now time.Time) bool { return !now.Before(s.since) && now.Before(s.until) }

func (s *statement) privilegeNames() []string {
	list := make([]string, len(s.privileges))
	for i, p := range s.privileges {
		list[i] = p.name
	}
	return list
}

// mismatch returns the text of the refusal for a slice that is not the target.
func (s *statement) mismatch(slice urn.URN) string {
	if s.target.Type != urn.Slice {
		return "it is on the " + s.target.Type + " " + s.target.String() + "; present the credential of the slice " + slice.String()
	}
	return "it is for the slice " + s.target.String() + ", not for " + slice.String()
}

// level is one credential of a delegation chain. A credential without delegation is a
// chain of one level.
type level struct {
	dsig.Signed
	content
}

// verify makes all checks of a credential that do not depend on the call. candidates are
// possible issuers, in addition to the certificates in the document.
func (z *Authorizer) verify(x examination, document []byte, candidates []*cert.Certificate) (*statement, error) {
	signatures := z.signatures
	signatures.Budget = x.budget
	chain, err := dsig.Verify(document, signatures)
	if err != nil {
		return nil, err
	}
	levels := make([]level, len(chain))
	w := certificateVerifier{options: z.certificates, anchors: x.anchors, now: x.now}
	w.options.Budget = x.budget
	s := &statement{since: x.now}
	for i, signed := range chain {
		c, err := readContent(signed)
		if err != nil {
			return nil, inParent(i, err)
		}
		if !x.now.Before(c.expires) {
			return nil, inParent(i, refuse(rule.CredentialExpired, am.CredentialExpired, "expired %s; %s", c.expires.Format(time.RFC3339), c.renewalHint(i < len(chain)-1)))
		}
		if i == 0 || c.expires.Before(s.until) {
			s.until = c.expires
		}
		levels[i] = level{signed, c}
		s.sha1 = s.sha1 || signed.SHA1
		w.candidates = append(append(w.candidates, signed.Signer), signed.Others...)
		if c.kind != kindABAC {
			w.candidates = slices.Concat(w.candidates, c.target[1:], c.owner[1:])
		}
	}
	w.candidates = append(w.candidates, candidates...)
	if err := checkKinds(levels); err != nil {
		return nil, err
	}
	switch levels[0].kind {
	case kindABAC:
		err = w.verifyABAC(levels[0], s)
	case kindSpeaksFor:
		err = w.verifySpeaksFor(levels[0], s)
	default:
		err = z.verifyPrivileges(levels, &w, s)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c content) renewalHint(delegated bool) string {
	switch {
	case c.kind != kindPrivilege:
		return "have the user sign a new one"
	case delegated:
		return "have it delegated again"
	}
	return "get a new one from its authority"
}

// verifyPrivileges verifies the names, the delegations, the signer and all certificates of a
// privilege credential, and sets owner, target, privileges and issuers of s. The outermost
// credential comes first in levels.
func (z *Authorizer) verifyPrivileges(levels []level, w *certificateVerifier, s *statement) error {
	for i, l := range levels {
		if err := l.checkNames(); err != nil {
			return inParent(i, err)
		}
		if i > 0 {
			if err := checkDelegation(levels[i-1], l); err != nil {
				return inParent(i-1, err)
			}
		}
	}
	root := levels[len(levels)-1]
	if err := z.checkSigner(root.Signer, root.target[0]); err != nil {
		return inParent(len(levels)-1, err)
	}
	for i, l := range levels {
		for _, part := range []roleCertificate{{"signer", l.Signer}, {"target", l.target[0]}, {"owner", l.owner[0]}} {
			chain, err := w.verify(part, s)
			if err != nil {
				return inParent(i, err)
			}
			if i == 0 {
				s.issuers = intermediates(chain) // the owner comes last
			}
		}
	}
	s.owner, s.target, s.privileges = levels[0].owner[0].URN, levels[0].target[0].URN, levels[0].privileges
	return nil
}

// certificateVerifier verifies the certificates of one document.
type certificateVerifier struct {
	candidates []*cert.Certificate // possible issuers
	anchors    *cert.Anchors
	options    cert.Options
	now        time.Time
}

// roleCertificate is a certificate with its role in a credential: signer, target or owner.
type roleCertificate struct {
	role string
	*cert.Certificate
}

// verify finds the chain of a certificate, and limits the validity of s to that of the
// chain.
func (w *certificateVerifier) verify(part roleCertificate, s *statement) (cert.Chain, error) {
	chain, err := cert.Verify(part.Certificate, w.candidates, w.anchors, w.options, w.now)
	if err != nil {
		return nil, refuse(rule.Of(err), detailOf(err), "its %s is not accepted: %v", part.role, err)
	}
	s.until = earlier(s.until, chain.Expires())
	s.sha1 = s.sha1 || chain.SHA1()
	return chain, nil
}

func intermediates(chain cert.Chain) []*cert.Certificate {
	if len(chain) < 3 {
		return nil
	}
	return slices.Clone(chain[1 : len(chain)-1])
}

func (l level) checkNames() error {
	if err := checkName("owner", l.ownerURN, l.owner[0]); err != nil {
		return err
	}
	return checkName("target", l.targetURN, l.target[0])
}

// checkName fails unless c contains a URN. If name is not empty, that URN must equal
// name.
func checkName(role, name string, c *cert.Certificate) error {
	if err := c.NameErr(); err != nil {
		return refuse(rule.Of(err), am.CredentialInvalid, "the certificate of its %s has %v", role, err)
	}
	if c.URN.IsZero() {
		return refuse(rule.HasURN, am.CredentialInvalid, "the certificate of its %s contains no URN", role)
	}
	if name == "" {
		return nil
	}
	if u, err := urn.Parse(name); err != nil || !u.Equal(c.URN) {
		return refuse(rule.MatchingName, am.CredentialMismatch, "its %s_urn is %.100q, but the certificate names %s", role, name, c.URN)
	}
	return nil
}
