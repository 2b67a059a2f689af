package authority

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"patchbay/am/api"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/display"
	"patchbay/am/urn"
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
	typeName    = "NAME" // a STRING that is compared without case, as in URNs
	typeURN     = "URN"
	typeUID     = "UID"
	typeTime    = "DATETIME"
	typeBoolean = "BOOLEAN"
	typeEmail   = "EMAIL"
	typeKey     = "KEY"
	typeRequest = "REQUEST" // a STRING of up to MaxRequest bytes
)

// shownTypes are the types that get_version shows for types of this program.
var shownTypes = map[string]string{typeName: typeString, typeRequest: typeString}

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
	// rows calls yield for each record that the caller may see. It may leave out records that do not
	// meet the conditions. It decodes records after its transaction.
	rows func(c *call, match conditions, yield func(row)) error
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
	if s := display.Suggest(name, names); s != "" {
		hint = "did you mean " + s + "?"
	}
	return refuse(Argument, "%s has no field %s; %s", o.name, display.Cut(name, 80), hint)
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
		return u, refuse(Argument, "%s is the URN of a %s, not of a %s: %s", name, display.Cut(u.Type, 80), kind, display.Cut(s, 80))
	}
	return u, nil
}

// aliases are names of fields that geni-lib sends.
var aliases = map[string]string{"PROJECT_DESC": "PROJECT_DESCRIPTION"}

// Limits of a text that a member sets, in bytes.
const (
	maxText = 1000
	maxKey  = 16 * maxText
	// MaxRequest is for the request of a project.
	MaxRequest = 1 << 20
)

// limitOf returns the limit for a field of a type, and whether it may have several lines and invisible characters.
func limitOf(kind string) (limit int, isDocument bool) {
	switch kind {
	case typeKey:
		return maxKey, true
	case typeRequest:
		return MaxRequest, true
	}
	return maxText, false
}

// readFields returns the option fields of a create or update call, checked. isSettable reports
// whether a client may set the field.
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
			limit, isDocument := limitOf(x.kind)
			if !ok || len(s) > limit {
				return nil, refuse(Argument, "%s must be a text of at most %d bytes", name, limit)
			}
			if i := strings.IndexFunc(s, isHidden); i >= 0 && !isDocument && !strings.HasSuffix(name, "_DESCRIPTION") {
				return nil, refuse(Argument, "%s contains the invisible character %+q; remove it", name, []rune(s[i:])[0])
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

// isHidden reports whether a character is a control character, a line separator, or an invisible one
// that changes how others are shown, such as the right-to-left override. The joiners U+200C and
// U+200D are part of names in some languages.
func isHidden(r rune) bool {
	return r != '\u200c' && r != '\u200d' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// condition is one member of the option match: the field has one of the values.
type condition struct {
	field
	values map[string]bool // in the form of matchText
}

type conditions []condition

// maxMatched limits the values of all conditions.
const maxMatched = 1000

// readMatch returns the conditions in the option match; nil for none. It converts each value once,
// so that a lookup compares each row by a map.
func (o *object) readMatch(options xmlrpc.Struct) (list conditions, err error) {
	v, ok := options.Get("match")
	if !ok {
		return nil, nil
	}
	s, ok := v.(xmlrpc.Struct)
	if !ok {
		return nil, refuse(Argument, "the option match must be a struct of fields and values")
	}
	total := 0
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
		if total += len(values); total > maxMatched {
			return nil, refuse(Argument, "match has more than %d values", maxMatched)
		}
		c := condition{x, map[string]bool{}}
		for _, v := range values {
			if s, ok := matchText(x.kind, v); ok {
				c.values[s] = true
			}
		}
		list = append(list, c)
	}
	return list, nil
}

// only returns the values that the field must have, in the form of matchText. The second result
// is false if every value is possible.
func (list conditions) only(name string) (values map[string]bool, ok bool) {
	for _, c := range list {
		if c.name == name {
			return c.values, true
		}
	}
	return map[string]bool{}, false
}

func (list conditions) areMet(r row) bool {
	for _, c := range list {
		v, ok := r.values[c.name]
		if !ok || c.protect > r.sees {
			return false
		}
		if s, ok := matchText(c.kind, v); !ok || !c.values[s] {
			return false
		}
	}
	return true
}

// matchText returns a text that is the same for equal values of a field. Names and URNs are compared
// without case, as in GENI. The second result is false for a value that no such field has.
func matchText(kind string, v xmlrpc.Value) (string, bool) {
	if kind == typeBoolean {
		b, ok := asBool(v)
		return fmt.Sprint(b), ok
	}
	s, ok := xmlrpc.AsString(v)
	switch kind {
	case typeTime:
		t, err := api.ParseTime(v)
		return api.FormatTime(t), err == nil
	case typeURN:
		u, err := urn.Parse(s)
		return u.Key(), ok && err == nil
	case typeName, typeUID:
		return urn.Lower(s), ok
	}
	return s, ok
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

// maxFilter is the maximum number of fields in the option filter; objects have fewer.
const maxFilter = 100

// readFilter returns the names of fields in the option filter; nil for all fields.
func (o *object) readFilter(options xmlrpc.Struct) (names []string, err error) {
	v, ok := options.Get("filter")
	if !ok {
		return nil, nil
	}
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return nil, refuse(Argument, "the option filter must be a list of fields")
	}
	if len(list) > maxFilter {
		return nil, refuse(Argument, "the option filter has more than %d fields", maxFilter)
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
	n := 0
	err = o.rows(c, match, func(r row) {
		if n++; n > maxRows || !match.areMet(r) {
			return
		}
		maps.DeleteFunc(r.values, func(name string, _ xmlrpc.Value) bool {
			x, _ := o.field(name)
			return x.protect > r.sees || filter != nil && !slices.Contains(filter, name)
		})
		found = append(found, r)
	})
	if err == nil && n > maxRows {
		err = tooMany(maxRows)
	}
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
		d := xmlrpc.Struct{{Name: "OBJECT", Value: o.name}, {Name: "TYPE", Value: cmp.Or(shownTypes[f.kind], f.kind)}}
		if f.create != "" {
			d = append(d, xmlrpc.Member{Name: "CREATE", Value: f.create})
		}
		d = append(d, xmlrpc.Member{Name: "MATCH", Value: f.match}, xmlrpc.Member{Name: "UPDATE", Value: f.update},
			xmlrpc.Member{Name: "PROTECT", Value: protectionNames[f.protect]})
		s = append(s, xmlrpc.Member{Name: f.name, Value: d})
	}
	return s
}
