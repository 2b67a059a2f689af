package authority

import (
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/am/api"
	"patchbay/am/urn"
	"patchbay/am/xmlrpc"
	"patchbay/inventory/suggest"
)

// Names of objects in the calls of version 2.
const (
	objectService    = "SERVICE"
	objectSlice      = "SLICE"
	objectSliverInfo = "SLIVER_INFO"
	objectProject    = "PROJECT"
	objectMember     = "MEMBER"
	objectKey        = "KEY"
)

// protection says who sees a field.
type protection int

const (
	public      protection = iota
	identifying            // people who share a slice or a project
	private                // the member themselves
)

var protectionNames = []string{"PUBLIC", "IDENTIFYING", "PRIVATE"}

// Values of field.create.
const (
	required = "REQUIRED"
	allowed  = "ALLOWED"
)

const (
	typeString  = "STRING"
	typeURN     = "URN"
	typeUID     = "UID"
	typeTime    = "DATETIME"
	typeBoolean = "BOOLEAN"
	typeEmail   = "EMAIL"
	typeKey     = "KEY"
)

// field is one field of an object, as get_version describes it.
type field struct {
	name, kind string
	create     string // "" if clients cannot set it in create
	update     bool
	match      bool
	protect    protection
}

// object is one kind of object of a service.
type object struct {
	name   string
	fields []field
	// rows calls yield for each record that the caller may see.
	rows func(c *call, t *tx, yield func(row)) error
	// create returns the new object. update and remove take its URN or id.
	create func(c *call, f fields) (row, error)
	update func(c *call, key string, f fields) error
	remove func(c *call, key string) error
}

// row is one object. values lacks fields that the object does not have.
type row struct {
	key    string
	owner  string // the member, for keys only
	values map[string]xmlrpc.Value
	sees   protection // the caller sees fields of at most this protection
}

func (o *object) field(name string) (field, bool) {
	i := slices.IndexFunc(o.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return o.fields[i], true
}

func (o *object) unknown(name string) error {
	var names []string
	for _, f := range o.fields {
		names = append(names, f.name)
	}
	hint := "get_version lists the fields"
	if s := suggest.Word(name, names); s != "" {
		hint = "did you mean " + s + "?"
	}
	return refuse(Argument, "%s has no field %s; %s", o.name, cut(name), hint)
}

// fields are the fields of a create or update call.
type fields map[string]xmlrpc.Value

// text returns "" for a missing field.
func (f fields) text(name string) string {
	s, _ := xmlrpc.AsString(f[name])
	return strings.TrimSpace(s)
}

// time returns the zero time for a missing field.
func (f fields) time(name string) (time.Time, error) {
	v, ok := f[name]
	if !ok {
		return time.Time{}, nil
	}
	t, err := api.ParseTime(v)
	if err != nil {
		return t, refuse(Argument, "%s: %v", name, err)
	}
	return t, nil
}

// urn returns the zero URN for a missing or empty field.
func (f fields) urn(name, kind string) (urn.URN, error) {
	s := f.text(name)
	if s == "" {
		return urn.URN{}, nil
	}
	return parseURN(name, s, kind)
}

// parseURN accepts every type if kind is empty.
func parseURN(name, s, kind string) (urn.URN, error) {
	u, err := urn.Parse(s)
	if err != nil {
		return u, refuse(Argument, "%s: %v", name, err)
	}
	if kind != "" && u.Type != kind {
		return u, refuse(Argument, "%s is the URN of a %s, not of a %s: %s", name, cut(u.Type), kind, cut(s))
	}
	return u, nil
}

// aliases are names of fields that geni-lib sends.
var aliases = map[string]string{"PROJECT_DESC": "PROJECT_DESCRIPTION"}

// maxText limits a text that a member sets, in bytes.
const maxText = 1000

// readFields checks the option fields. isSettable returns whether a client may set the field.
func (o *object) readFields(options xmlrpc.Struct, isSettable func(field) bool) (fields, error) {
	v, ok := options.Get("fields")
	list, isStruct := v.(xmlrpc.Struct)
	if !ok || !isStruct {
		return nil, refuse(Argument, "the option fields is missing; it is a struct of fields and their values")
	}
	f := fields{}
	for _, m := range list {
		name := m.Name
		if a, ok := aliases[name]; ok {
			name = a
		}
		x, ok := o.field(name)
		switch {
		case !ok && strings.HasPrefix(name, "_"): // a field of another authority
			continue
		case !ok:
			return nil, o.unknown(name)
		case !isSettable(x):
			return nil, refuse(Argument, "%s cannot be set here; get_version lists the fields that can", name)
		}
		if x.kind != typeTime && x.kind != typeBoolean {
			s, ok := xmlrpc.AsString(m.Value)
			if limit := maxText * map[bool]int{true: 16, false: 1}[x.kind == typeKey]; !ok || len(s) > limit {
				return nil, refuse(Argument, "%s must be a text of at most %d bytes", name, limit)
			}
		}
		f[name] = m.Value
	}
	return f, nil
}

func (o *object) readCreate(options xmlrpc.Struct) (fields, error) {
	f, err := o.readFields(options, func(x field) bool { return x.create != "" })
	if err != nil {
		return nil, err
	}
	for _, x := range o.fields {
		if _, ok := f[x.name]; x.create == required && !ok {
			return nil, refuse(Argument, "%s is missing in fields", x.name)
		}
	}
	return f, nil
}

// condition is one member of the option match: the field has one of the values.
type condition struct {
	field
	values []xmlrpc.Value
}

// maxMatched limits the values of one condition.
const maxMatched = 1000

func (o *object) readMatch(options xmlrpc.Struct) (list []condition, err error) {
	v, ok := options.Get("match")
	if !ok {
		return nil, nil
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return nil, refuse(Argument, "the option match must be a struct of fields and values")
	}
	for _, m := range s {
		x, ok := o.field(m.Name)
		if !ok {
			return nil, o.unknown(m.Name)
		}
		if !x.match {
			return nil, refuse(Argument, "match cannot contain %s; get_version lists the fields that it can contain", x.name)
		}
		values, isList := m.Value.([]xmlrpc.Value)
		if !isList {
			values = []xmlrpc.Value{m.Value}
		}
		if len(values) > maxMatched {
			return nil, refuse(Argument, "match has %d values for %s, more than %d", len(values), x.name, maxMatched)
		}
		list = append(list, condition{x, values})
	}
	return list, nil
}

// isMet compares as the field's type requires.
func (c *condition) isMet(r row) bool {
	have, ok := r.values[c.name]
	return ok && c.protect <= r.sees && slices.ContainsFunc(c.values, func(want xmlrpc.Value) bool { return isEqual(c.kind, have, want) })
}

func isEqual(kind string, have, want xmlrpc.Value) bool {
	if kind == typeBoolean {
		b, ok := asBool(want)
		return ok && have == b
	}
	a, okA := xmlrpc.AsString(have)
	if kind == typeTime {
		t, err := api.ParseTime(want)
		return err == nil && a == api.FormatTime(t)
	}
	b, okB := xmlrpc.AsString(want)
	if !okA || !okB {
		return false
	}
	if kind == typeURN {
		u, errU := urn.Parse(a)
		v, errV := urn.Parse(b)
		return errU == nil && errV == nil && u.Equal(v)
	}
	return a == b
}

// asBool also accepts t and f, which omni sends.
func asBool(v xmlrpc.Value) (b, ok bool) {
	switch s, _ := v.(string); strings.ToLower(s) {
	case "t":
		return true, true
	case "f":
		return false, true
	}
	return xmlrpc.AsBool(v)
}

// readFilter returns nil for all fields.
func (o *object) readFilter(options xmlrpc.Struct) (names []string, err error) {
	v, ok := options.Get("filter")
	if !ok {
		return nil, nil
	}
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, refuse(Argument, "the option filter must be a list of fields")
	}
	names = []string{}
	for _, v := range list {
		name, _ := xmlrpc.AsString(v)
		if _, ok := o.field(name); !ok && !strings.HasPrefix(name, "_") {
			return nil, o.unknown(name)
		}
		names = append(names, name)
	}
	return names, nil
}

// lookup returns the rows that meet the option match, in the order of their keys, with the fields
// of the option filter.
func (o *object) lookup(c *call) ([]row, error) {
	match, err := o.readMatch(c.options)
	if err != nil {
		return nil, err
	}
	filter, err := o.readFilter(c.options)
	if err != nil {
		return nil, err
	}
	var found []row
	err = c.view(func(t *tx) error {
		return o.rows(c, t, func(r row) {
			for i := range match {
				if !match[i].isMet(r) {
					return
				}
			}
			maps.DeleteFunc(r.values, func(name string, _ xmlrpc.Value) bool {
				x, _ := o.field(name)
				return x.protect > r.sees || filter != nil && !slices.Contains(filter, name)
			})
			found = append(found, r)
		})
	})
	slices.SortFunc(found, func(a, b row) int { return strings.Compare(a.key, b.key) })
	return found, err
}

// structOf returns the fields in the order of get_version.
func (o *object) structOf(r row) xmlrpc.Struct {
	s := xmlrpc.Struct{}
	for _, f := range o.fields {
		if v, ok := r.values[f.name]; ok {
			s = append(s, xmlrpc.Member{Name: f.name, Value: v})
		}
	}
	return s
}

// dictionary returns a struct from keys to objects, the answer of most lookups.
func (o *object) dictionary(rows []row) xmlrpc.Struct {
	s := xmlrpc.Struct{}
	for _, r := range rows {
		s = append(s, xmlrpc.Member{Name: r.key, Value: o.structOf(r)})
	}
	return s
}

// describe returns the fields for get_version. A field that create cannot set has no CREATE,
// because jFed knows only two values.
func (o *object) describe() (s xmlrpc.Struct) {
	for _, f := range o.fields {
		d := xmlrpc.Struct{{Name: "OBJECT", Value: o.name}, {Name: "TYPE", Value: f.kind}}
		if f.create != "" {
			d = append(d, xmlrpc.Member{Name: "CREATE", Value: f.create})
		}
		d = append(d, xmlrpc.Member{Name: "MATCH", Value: f.match}, xmlrpc.Member{Name: "UPDATE", Value: f.update},
			xmlrpc.Member{Name: "PROTECT", Value: protectionNames[f.protect]})
		s = append(s, xmlrpc.Member{Name: f.name, Value: d})
	}
	return s
}
