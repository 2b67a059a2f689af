package authority

import (
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
	"patchbay/credentials"
	"patchbay/credentials/cert"
)

// protogeni are the methods of the ProtoGENI slice authority. Each has one struct as its argument.
var protogeni = map[string]method{
	"GetVersion":    {args: "S", anyone: true, run: func(*call) (xmlrpc.Value, error) { return 1, nil }},
	"GetCredential": {args: "S", changes: true, run: pgGetCredential},
	"Register":      {args: "S", changes: true, run: pgRegister},
	"Resolve":       {args: "S", run: pgResolve},
	"RenewSlice":    {args: "S", changes: true, run: pgRenewSlice},
	"GetKeys":       {args: "S", run: pgGetKeys},
	"Remove":        {args: "S", changes: true, run: pgRemove},
}

// Codes of the ProtoGENI API that the AM API does not use.
const pgAlreadyExists am.Code = 17

// protogeniCode returns the code for an error of this package.
func protogeniCode(err error) am.Code {
	e, ok := errors.AsType[*Error](err)
	switch {
	case err == nil:
		return am.Success
	case !ok:
		return am.ServerError
	case e.missing:
		return am.SearchFailed
	}
	return map[Code]am.Code{
		Authentication: am.Forbidden, Authorization: am.Forbidden, Argument: am.BadArgs, Database: am.DBError,
		Duplicate: pgAlreadyExists, NotImplemented: am.Refused, Server: am.ServerError,
	}[e.Code]
}

// pgName returns the URN of the call's object, which clients give as urn or hrn.
func (c *call) pgName(kind string) (urn.URN, error) {
	if text := c.option("urn"); text != "" {
		return parseURN("urn", text, kind)
	}
	hrn := c.option("hrn")
	switch {
	case hrn == "":
		return urn.URN{}, refuse(Argument, "urn is missing; it names a %s", kind)
	case strings.HasPrefix(urn.Lower(hrn), "urn:"):
		return parseURN("hrn", hrn, kind)
	}
	return urn.URN{Authority: c.authority.URN().Authority, Type: kind, Name: hrn[strings.LastIndexByte(hrn, '.')+1:]}, nil
}

// pgType returns the type of the call's object in lower case.
func (c *call) pgType() string { return strings.ToLower(c.option("type")) }

func (c *call) onlySlices() error {
	if t := c.pgType(); t != urn.Slice {
		return refuse(NotImplemented, "type is %s; only Slice is possible", display.Cut(t, 80))
	}
	return nil
}

// pgGetCredential issues the credential of a slice, or of the caller if no object is named.
func pgGetCredential(c *call) (xmlrpc.Value, error) {
	if c.option("urn", "hrn") == "" {
		text, err := c.authority.UserCredential(c.caller.Name, c.now.Add(FirstLease))
		return string(text), err
	}
	if err := c.onlySlices(); err != nil {
		return nil, err
	}
	u, err := c.pgName(urn.Slice)
	if err != nil {
		return nil, err
	}
	text, err := c.sliceCredential(u.String())
	return string(text), err
}

// pgRegister creates a slice.
func pgRegister(c *call) (xmlrpc.Value, error) {
	if err := c.onlySlices(); err != nil {
		return nil, err
	}
	u, err := c.pgName(urn.Slice)
	if err != nil {
		return nil, err
	}
	own := c.authority.URN().Authority
	if !urn.Covers(own, u.Authority) {
		return nil, refuse(Argument, "%s is no slice of %s", u, own)
	}
	var project urn.URN
	if len(u.Authority) > len(own) {
		project = urn.URN{Authority: own, Type: urn.Project, Name: u.Authority[len(own)+1:]}
	}
	expires, err := c.pgExpiration()
	if err != nil {
		return nil, err
	}
	s, err := c.createSlice(u.Name, project, "", expires)
	if err != nil {
		return nil, err
	}
	text, err := c.authority.credentialOf(s, c.caller, s.Expires, c.now)
	return string(text), err
}

func (c *call) pgExpiration() (t time.Time, err error) {
	if v, ok := c.options.Get("expiration"); ok {
		if t, err = api.ParseTime(v); err != nil {
			err = refuse(Argument, "expiration: %v", err)
		}
	}
	return t, err
}

// pgRenewSlice renews the slice of the credential.
func pgRenewSlice(c *call) (xmlrpc.Value, error) {
	name, err := c.pgCredentialSlice()
	if err != nil {
		return nil, err
	}
	expires, err := c.pgExpiration()
	if err == nil && expires.IsZero() {
		err = refuse(Argument, "expiration is missing")
	}
	if err != nil {
		return nil, err
	}
	if err := updateSlice(c, name, fields{"SLICE_EXPIRATION": api.FormatTime(expires)}); err != nil {
		return nil, err
	}
	text, err := c.sliceCredential(name)
	return string(text), err
}

// pgCredentialSlice returns the caller's slice for which the credential is.
func (c *call) pgCredentialSlice() (name string, err error) {
	presented := []credentials.Presented{{Type: credentialType, Version: credentialVersion, Text: c.option("credential")}}
	grant, err := c.config.Identify.Authorize(c.peer, presented, "", credentials.RightRenew, c.now)
	if err != nil {
		return "", refuse(Authorization, "%v", err)
	}
	err = c.view(func(t *tx) (err error) {
		for _, key := range groupsOf(t, c.caller, sliceRecords) {
			u, err := urn.Parse(key)
			if err != nil {
				return err
			}
			if _, err := grant.Over(u); err == nil {
				name = key
				return nil
			}
		}
		return nil
	})
	if err == nil && name == "" {
		err = refuse(Argument, "the credential is for no slice of yours")
	}
	return name, err
}

// pgResolve describes a slice of the caller, or a member.
func pgResolve(c *call) (v xmlrpc.Value, err error) {
	kind := map[string]string{"slice": urn.Slice, "user": urn.User}[c.pgType()]
	if kind == "" {
		return nil, refuse(Argument, "type is %s; the types are Slice and User", display.Cut(c.option("type"), 80))
	}
	u, err := c.pgName(kind)
	if err != nil {
		return nil, err
	}
	if kind == urn.User {
		return c.pgUser(u)
	}
	err = c.view(func(t *tx) error {
		v, err = c.pgSlice(t, u)
		return err
	})
	return v, err
}

func (c *call) pgSlice(t *tx, u urn.URN) (xmlrpc.Value, error) {
	s, err := c.slice(t, u.String(), actLookup)
	if err != nil {
		return nil, err
	}
	raw, _, err := get[[]byte](t, certificates, u.Key())
	if err != nil {
		return nil, err
	}
	gid, err := cert.Parse(raw)
	if err != nil {
		return nil, err
	}
	v := xmlrpc.Struct{
		{Name: "urn", Value: s.URN.String()}, {Name: "uuid", Value: s.UID}, {Name: "hrn", Value: s.URN.Name}, {Name: "gid", Value: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: gid.Raw}))},
		{Name: "expires", Value: api.FormatTime(s.Expires)}, {Name: "component_managers", Value: []xmlrpc.Value{}},
	}
	for _, m := range s.Members {
		if m.Role == Lead {
			creator, _, err := get[Member](t, members, m.Member.Key())
			return append(v, xmlrpc.Member{Name: "creator_urn", Value: m.Member.String()}, xmlrpc.Member{Name: "creator_uuid", Value: creator.UID}), err
		}
	}
	return v, nil
}

// pgUser describes a member. The answer always has the member slices, which clients read; it is empty
// for other users than the caller.
func (c *call) pgUser(u urn.URN) (xmlrpc.Value, error) {
	var m Member
	err := c.view(func(t *tx) (err error) {
		var ok bool
		if m, ok, err = get[Member](t, members, u.Key()); err == nil && (!ok || !m.Removed.IsZero()) {
			err = unknown("member urn", u)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	gid, err := c.authority.UserCertificate(m.URN.Name)
	if err != nil {
		return nil, err
	}
	v := xmlrpc.Struct{
		{Name: "urn", Value: m.URN.String()}, {Name: "uuid", Value: m.UID}, {Name: "uid", Value: m.URN.Name}, {Name: "hrn", Value: m.URN.Name}, {Name: "gid", Value: string(gid)},
	}
	own := []xmlrpc.Value{}
	if !m.URN.Equal(c.caller) {
		return append(v, xmlrpc.Member{Name: "slices", Value: own}), nil
	}
	for _, s := range each[Slice](c.groups(sliceRecords, &err), &err) {
		if !s.isExpired(c.now) {
			own = append(own, s.URN.String())
		}
	}
	return append(v, xmlrpc.Member{Name: "email", Value: m.Email}, xmlrpc.Member{Name: "name", Value: strings.TrimSpace(m.FirstName + " " + m.LastName)},
		xmlrpc.Member{Name: "slices", Value: own}), err
}

// pgGetKeys returns the caller's keys, each in the forms of both versions of this call.
func pgGetKeys(c *call) (xmlrpc.Value, error) {
	list := []xmlrpc.Value{}
	err := c.view(func(t *tx) error {
		own, err := keysOf(t, c.caller)
		for _, k := range own {
			one := xmlrpc.Struct{{Name: "type", Value: "ssh"}, {Name: "key", Value: k.Public}}
			list = append(list, append(one, xmlrpc.Member{Name: "urn", Value: c.caller.String()}, xmlrpc.Member{Name: "keys", Value: []xmlrpc.Value{one}}))
		}
		return err
	})
	return list, err
}

// pgRemove removes an expired slice. A slice that lives cannot be removed, since its credentials
// would be valid for a new slice of that name.
func pgRemove(c *call) (xmlrpc.Value, error) {
	if err := c.onlySlices(); err != nil {
		return nil, err
	}
	u, err := c.pgName(urn.Slice)
	if err != nil {
		return nil, err
	}
	return nil, c.update(func(t *tx) error {
		s, ok, err := get[Slice](t, sliceRecords, u.Key())
		switch {
		case err != nil:
			return err
		case !ok:
			return unknown("slice urn", u)
		}
		if err := may(objectSlice, actModify, s.group.relationTo(c.caller), s.URN); err != nil {
			return err
		}
		if !s.isExpired(c.now) {
			return refuse(NotImplemented, "the slice lives until %s; delete its slivers and let it expire", api.FormatTime(s.Expires))
		}
		return removeSlice(t, u.Key())
	})
}
