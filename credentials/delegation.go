package credentials

import (
	"slices"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
	"patchbay/credentials/cert"
	"patchbay/credentials/rule"
)

// checkKinds refuses a delegation of credentials other than privileges. A credential
// without a parent may have any kind.
func checkKinds(levels []level) error {
	kind := levels[0].kind
	if len(levels) > 1 && kind != kindPrivilege {
		return refuse(rule.OnlyPrivileges, am.CredentialInvalid, "it is of the type %s and contains a parent; only privileges can be delegated", kind)
	}
	for i, l := range levels {
		if l.kind != kind {
			return inParent(i-1, refuse(rule.OneKind, am.CredentialInvalid, "it is of the type %s, but its parent of the type %s", kind, l.kind))
		}
	}
	return nil
}

// checkDelegation checks that the parent's owner signed the child, and that the child gives
// no more than the parent. Both signatures are verified elsewhere.
func checkDelegation(child, parent level) error {
	owner, target := parent.owner[0], parent.target[0]
	switch {
	case owner.URN.Type != urn.User && owner.URN.Type != urn.Tool:
		return refuse(rule.DelegatorKind, am.CredentialUntrusted, "its parent belongs to %s; only users and tools can delegate", owner.URN)
	case !child.Signer.URN.Equal(owner.URN):
		return refuse(rule.DelegatorName, am.CredentialUntrusted, "it is signed by %s, but its parent belongs to %s, and only the owner can delegate it", child.Signer.Name(), owner.URN)
	case !sameKey(child.Signer, owner):
		return refuse(rule.DelegatorKey, am.CredentialUntrusted, "it is signed with a key of %s that is not the key in its parent; get a new credential and delegate that", owner.URN)
	case !child.target[0].URN.Equal(target.URN) || child.target[0].Fingerprint() != target.Fingerprint():
		return refuse(rule.SameTarget, am.CredentialMismatch, "its target is %s and its parent's target is %s, with different names or certificates; delegate it again and leave the target unchanged", child.target[0].URN, target.URN)
	case child.expires.After(parent.expires):
		return refuse(rule.NoLonger, am.CredentialUntrusted, "it expires %s, after its parent, which expires %s; delegate it again with an earlier expiry",
			child.expires.Format(time.RFC3339), parent.expires.Format(time.RFC3339))
	}
	delegable := map[string]bool{} // the parent's privileges, in lower case
	for _, p := range parent.privileges {
		delegable[strings.ToLower(p.name)] = p.delegate
	}
	for _, p := range child.privileges {
		// The child's privilege may be delegable, too.
		if !delegable["*"] && !delegable[strings.ToLower(p.name)] {
			return refuse(rule.Delegable, am.CredentialUntrusted, "it gives the privilege %.40q, which its parent does not let %s delegate; delegate it again without that privilege", p.name, owner.URN)
		}
	}
	return nil
}

// inParent adds the position in the chain, such as "its parent", to an error about
// credential i. The outermost credential is 0.
func inParent(i int, err error) error {
	if i == 0 {
		return err
	}
	return refuse(rule.Of(err), detailOf(err), "its parent%s: %v", strings.Repeat("'s parent", i-1), err)
}

// checkSigner checks that the signer is an authority, covers the target and may sign. The
// signer's certificate is verified elsewhere.
func (z *Authorizer) checkSigner(signer, target *cert.Certificate) error {
	switch {
	case signer.URN.Type != urn.Authority:
		return refuse(rule.SignerIsAuthority, am.CredentialUntrusted, "it is signed by %s, which is not an authority", signer.Name())
	case !urn.Covers(signer.URN.Authority, target.URN.Authority):
		return refuse(rule.SignerCovers, am.CredentialUntrusted, "it is signed by %s, whose authority does not cover %s", signer.URN, target.URN)
	case !slices.Contains(z.signers, strings.ToLower(signer.URN.Name)):
		return refuse(rule.SignerSigns, am.CredentialUntrusted, "it is signed by %s, which is not among the authorities that sign credentials (%s)",
			signer.URN, strings.Join(z.signers, ", "))
	}
	return nil
}
