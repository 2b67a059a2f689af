package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/authority"
	"patchbay/am/client"
	"patchbay/am/urn"
)

// record is a record of the authority.
type record struct {
	key    string // a URN, or the id of a key
	fields xmlrpc.Struct
}

// text returns a field; "" if the record does not have it.
func (r record) text(field string) string {
	v, _ := r.fields.Get(field)
	text, _ := xmlrpc.AsString(v)
	return text
}

// is reports whether a field is true.
func (r record) is(field string) bool {
	v, _ := r.fields.Get(field)
	is, _ := xmlrpc.AsBool(v)
	return is
}

// recordsOf returns the records in an answer of lookup, by key, and in those of the methods that answer with a list.
func recordsOf(v xmlrpc.Value, err error) (list []record, _ error) {
	switch v := v.(type) {
	case xmlrpc.Struct:
		for _, m := range v {
			fields, _ := m.Value.(xmlrpc.Struct)
			list = append(list, record{m.Name, fields})
		}
	case []xmlrpc.Value:
		for _, x := range v {
			fields, _ := x.(xmlrpc.Struct)
			list = append(list, record{"", fields})
		}
	}
	return list, err
}

// matching returns the options of lookup for the records with a value in a field.
func matching(field string, value xmlrpc.Value) xmlrpc.Struct {
	return xmlrpc.Struct{{Name: "match", Value: xmlrpc.Struct{{Name: field, Value: value}}}}
}

// fieldsOf returns the options of create and update, from names and values of fields.
func fieldsOf(pairs ...string) xmlrpc.Struct {
	fields := xmlrpc.Struct{}
	for i := 0; i < len(pairs); i += 2 {
		fields = append(fields, xmlrpc.Member{Name: pairs[i], Value: pairs[i+1]})
	}
	return xmlrpc.Struct{{Name: "fields", Value: fields}}
}

// sliceRecord is a slice as the authority shows it to the visitor.
type sliceRecord struct {
	URN, Project     urn.URN
	Created, Expires time.Time
	IsExpired        bool
	Role             authority.Role // of the visitor
}

// names returns the path /PROJECT/NAME; the project of a slice without one is -. Such names need no escapes.
func (s sliceRecord) names() string { return "/" + cmp.Or(s.Project.Name, "-") + "/" + s.URN.Name }

// Path returns the path of the page about the experiment, and StartPath that of the page that starts it again.
func (s sliceRecord) Path() string      { return "/ui/experiment" + s.names() }
func (s sliceRecord) StartPath() string { return "/ui/start" + s.names() }

// CanChange and CanInvite report what the visitor's role allows.
func (s sliceRecord) CanChange() bool { return s.Role != authority.Auditor }
func (s sliceRecord) CanInvite() bool { return s.Role == authority.Lead || s.Role == authority.Admin }

func (r record) slice() (x sliceRecord, err error) {
	if project := r.text("SLICE_PROJECT_URN"); project != "" {
		x.Project, err = urn.Parse(project)
	}
	x.Created, _ = time.Parse(time.RFC3339, r.text("SLICE_CREATION"))
	x.Expires, _ = time.Parse(time.RFC3339, r.text("SLICE_EXPIRATION"))
	x.IsExpired = r.is("SLICE_EXPIRED")
	u, failed := urn.Parse(r.key)
	x.URN = u
	return x, cmp.Or(err, failed)
}

// sliceURN returns the URN of a slice; a project is "" or - for none. It returns errNotFound if there can be no such slice.
func (q *request) sliceURN(project, name string) (urn.URN, error) {
	u := urn.URN{Authority: q.Authority.URN().Authority, Type: urn.Slice, Name: name}
	if project != "" && project != "-" {
		u.Authority += ":" + project
	}
	if parsed, err := urn.Parse(u.String()); err != nil || !parsed.Equal(u) {
		return u, errNotFound
	}
	return u, nil
}

// roleIn returns the visitor's role in a slice. It returns errNotFound if they have none.
func (q *request) roleIn(slice urn.URN) (authority.Role, error) {
	role, err := q.Authority.RoleIn(slice, q.visitor.Member)
	if err == nil && role == "" {
		err = errNotFound
	}
	return role, err
}

// slice returns a slice with the visitor's role. It returns errNotFound if the visitor has none.
func (q *request) slice(u urn.URN) (x sliceRecord, err error) {
	role, err := q.roleIn(u)
	if err != nil {
		return x, err
	}
	records, err := recordsOf(q.authorityCall("sa", "lookup", "SLICE", matching("SLICE_URN", u.String())))
	if err == nil && len(records) == 0 {
		err = errNotFound
	}
	if err != nil {
		return x, err
	}
	x, err = records[0].slice()
	x.Role = role
	return x, err
}

// sliceOfPath returns the slice that the path names, as slice does.
func (q *request) sliceOfPath() (x sliceRecord, err error) {
	u, err := q.sliceURN(q.r.PathValue("project"), q.r.PathValue("name"))
	if err != nil {
		return x, err
	}
	return q.slice(u)
}

// roles returns the roles of the visitor in slices or projects, by URN.
func (q *request) roles(object string) (map[string]authority.Role, error) {
	records, err := recordsOf(q.authorityCall("sa", "lookup_for_member", object, q.visitor.Member.String(), xmlrpc.Struct{}))
	roles := map[string]authority.Role{}
	for _, r := range records {
		roles[r.text(object+"_URN")] = authority.Role(r.text(object + "_ROLE"))
	}
	return roles, err
}

// projectRecord is a project of the visitor.
type projectRecord struct {
	URN       urn.URN
	Role      authority.Role
	IsExpired bool
	Request   string // that members start in a slice of their own; "" for none
}

// CanStart reports whether the visitor may create slices in the project, and IsTaught whether they see it as a class.
func (p projectRecord) CanStart() bool { return !p.IsExpired && p.Role != authority.Auditor }
func (p projectRecord) IsTaught() bool { return p.Role == authority.Lead || p.Role == authority.Admin }

// projects returns the projects of the visitor in the order of their names.
func (q *request) projects() (list []projectRecord, err error) {
	roles, err := q.roles("PROJECT")
	if err != nil || len(roles) == 0 {
		return nil, err
	}
	var records []record
	for _, filter := range [][]string{{"PROJECT_EXPIRED", "_PATCHBAY_REQUEST"}, {"PROJECT_EXPIRED"}} { // the requests may be too large for one answer
		if records, err = recordsOf(q.authorityCall("sa", "lookup", "PROJECT", xmlrpc.Struct{{Name: "filter", Value: client.Strings(filter)}})); err == nil {
			break
		}
	}
	for _, r := range records {
		u, failed := urn.Parse(r.key)
		err = cmp.Or(err, failed)
		list = append(list, projectRecord{u, roles[r.key], r.is("PROJECT_EXPIRED"), r.text("_PATCHBAY_REQUEST")})
	}
	slices.SortFunc(list, func(a, b projectRecord) int { return strings.Compare(a.URN.Name, b.URN.Name) })
	return list, err
}

// partner is a member of a slice.
type partner struct {
	URN  urn.URN
	Role authority.Role
}

// partners returns the members of a slice.
func (q *request) partners(slice urn.URN) (list []partner, err error) {
	records, err := recordsOf(q.authorityCall("sa", "lookup_members", "SLICE", slice.String(), xmlrpc.Struct{}))
	for _, r := range records {
		u, failed := urn.Parse(r.text("SLICE_MEMBER"))
		err = cmp.Or(err, failed)
		list = append(list, partner{u, authority.Role(r.text("SLICE_ROLE"))})
	}
	return list, err
}

// keyRecord is a public SSH key of a member.
type keyRecord struct{ ID, Owner, Public string }

// Short returns a key without most of its data.
func (k keyRecord) Short() string {
	words := strings.SplitN(k.Public, " ", 3)
	if len(words) > 1 {
		words[1] = "…" + words[1][max(0, len(words[1])-12):]
	}
	return strings.Join(words, " ")
}

// keysOf returns the SSH keys of members, by their URNs.
func (q *request) keysOf(members ...string) (list []keyRecord, err error) {
	records, err := recordsOf(q.authorityCall("ma", "lookup", "KEY", matching("KEY_MEMBER", client.Strings(members))))
	for _, r := range records {
		list = append(list, keyRecord{r.key, r.text("KEY_MEMBER"), r.text("KEY_PUBLIC")})
	}
	return list, err
}

// withoutPrivate returns the text of a form's key to show it again, unless it is a private key.
func withoutPrivate(key string) string {
	if strings.Contains(key, "PRIVATE KEY") {
		return ""
	}
	return key
}

// addKey adds an SSH key to those of the visitor.
func (q *request) addKey(public string) error {
	if public != withoutPrivate(public) {
		return badRequest("This is a private key, which nobody else may have. It was not stored. Paste the line of the file that ends in .pub.")
	}
	_, err := q.authorityCall("ma", "create", "KEY", fieldsOf("KEY_MEMBER", q.visitor.Member.String(), "KEY_PUBLIC", strings.TrimSpace(public)))
	return err
}

// usersOf returns the accounts for the members of a slice who may work in it and have an SSH key.
func (q *request) usersOf(slice urn.URN) (users []client.User, err error) {
	list, err := q.partners(slice)
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, m := range list {
		if m.Role != authority.Auditor {
			owners = append(owners, m.URN.String())
		}
	}
	keys, err := q.keysOf(owners...)
	for _, owner := range owners {
		u := client.User{URN: owner}
		for _, k := range keys {
			if k.Owner == owner {
				u.Keys = append(u.Keys, k.Public)
			}
		}
		if len(u.Keys) > 0 {
			users = append(users, u)
		}
	}
	return users, err
}

// keepUntil makes the slice last at the authority until end at least.
func (q *request) keepUntil(s sliceRecord, end time.Time) error {
	if !s.Expires.Before(end) {
		return nil
	}
	_, err := q.authorityCall("sa", "update", "SLICE", s.URN.String(), fieldsOf("SLICE_EXPIRATION", client.Time(end)))
	q.credentials.clear() // a lease ends with its credential at the latest
	return err
}
