package authority

import (
	"fmt"
	"slices"

	"patchbay/am/api/xmlrpc"
	"patchbay/am/urn"
)

// Values of SERVICE_TYPE.
const (
	sliceAuthority   = "SLICE_AUTHORITY"
	memberAuthority  = "MEMBER_AUTHORITY"
	aggregateManager = "AGGREGATE_MANAGER"
)

var services = object{
	name: objectService,
	fields: []field{
		{name: "SERVICE_URN", kind: typeURN, match: true},
		{name: "SERVICE_URL", kind: typeString, match: true},
		{name: "SERVICE_TYPE", kind: typeString, match: true},
		{name: "SERVICE_NAME", kind: typeName, match: true},
		{name: "SERVICE_DESCRIPTION", kind: typeString},
		{name: "SERVICE_CERT", kind: typeString},
		{name: "_GENI_SERVICE_SHORT_NAME", kind: typeString},
		{name: "_GENI_SERVICE_ATTRIBUTES", kind: "STRUCT"},
	},
	rows: func(c *call, _ conditions, yield func(row)) error {
		name := c.authority.URN().Authority
		sa, ma := c.authority.Services()
		for i, x := range []struct {
			kind, urn, path, title, cert string
		}{
			{sliceAuthority, c.authority.URN().String(), fmt.Sprint("/sa/", c.version), "slice authority", string(sa)},
			{memberAuthority, c.serviceURN("ma"), fmt.Sprint("/ma/", c.version), "member authority", string(ma)},
			{aggregateManager, c.config.Manager.String(), "/am/2.0", "aggregate manager, version 2", ""},
			{aggregateManager, c.config.Manager.String(), "/am/3.0", "aggregate manager, version 3", ""},
		} {
			v := map[string]xmlrpc.Value{
				"SERVICE_URN": x.urn, "SERVICE_URL": c.config.PublicURL + x.path, "SERVICE_TYPE": x.kind,
				"SERVICE_NAME": name, "SERVICE_DESCRIPTION": x.title + " of " + name,
				"_GENI_SERVICE_SHORT_NAME": name, "_GENI_SERVICE_ATTRIBUTES": xmlrpc.Struct{},
			}
			if x.kind == aggregateManager {
				v["_GENI_SERVICE_ATTRIBUTES"] = xmlrpc.Struct{{Name: "UI_AM_TYPE", Value: "ui_other_am"}}
			} else {
				v["SERVICE_CERT"] = x.cert
			}
			// omni keeps the last URL of a URN, so the order matters.
			yield(row{key: string(rune('a' + i)), values: v})
		}
		return nil
	},
}

func (c *call) serviceURN(name string) string {
	u := c.authority.URN()
	u.Name = name
	return u.String()
}

func lookupServices(kind string) func(*call) (xmlrpc.Value, error) {
	return func(c *call) (xmlrpc.Value, error) {
		match, _ := c.options.Get("match")
		s, _ := match.(xmlrpc.Struct)
		s = append(slices.DeleteFunc(slices.Clone(s), func(m xmlrpc.Member) bool { return m.Name == "SERVICE_TYPE" }), xmlrpc.Member{Name: "SERVICE_TYPE", Value: kind})
		c.options = append(slices.DeleteFunc(slices.Clone(c.options), func(m xmlrpc.Member) bool { return m.Name == "match" }), xmlrpc.Member{Name: "match", Value: s})
		return lookupList(c)
	}
}

func getTrustRoots(c *call) (xmlrpc.Value, error) {
	return []xmlrpc.Value{string(c.authority.Certificate())}, nil
}

// lookupAuthorities returns the URL of the service that is responsible for each URN. The answer
// lacks URNs of other authorities.
func lookupAuthorities(c *call) (xmlrpc.Value, error) {
	s := xmlrpc.Struct{}
	for _, text := range c.urns {
		u, err := urn.Parse(text)
		if err != nil || !urn.Covers(c.authority.URN().Authority, u.Authority) {
			continue
		}
		sa, ma := fmt.Sprint("/sa/", c.version), fmt.Sprint("/ma/", c.version)
		path := map[string]string{urn.Slice: sa, urn.Project: sa, urn.User: ma, urn.Sliver: "/am/3.0"}[u.Type]
		if _, has := s.Get(text); path != "" && !has {
			s = append(s, xmlrpc.Member{Name: text, Value: c.config.PublicURL + path})
		}
	}
	return s, nil
}

// serviceNames are the values of SERVICES in get_version.
var serviceNames = map[string][]string{
	"ch": {"SERVICE"},
	"sa": {"SLICE", "SLICE_MEMBER", "SLIVER_INFO", "PROJECT", "PROJECT_MEMBER"},
	"ma": {"MEMBER", "KEY"},
}

func getVersion(c *call) (xmlrpc.Value, error) {
	v := xmlrpc.Struct{
		{Name: "VERSION", Value: string(rune('0' + c.version))},
		{Name: "URN", Value: c.serviceURN(c.name)},
		{Name: "SERVICES", Value: texts(serviceNames[c.name])},
		{Name: "OBJECTS", Value: texts(objectsOf[c.name])},
		{Name: "CREDENTIAL_TYPES", Value: []xmlrpc.Value{xmlrpc.Struct{{Name: "type", Value: "geni_sfa"}, {Name: "version", Value: "3"}}}},
		{Name: "API_VERSIONS", Value: xmlrpc.Struct{{Name: "1", Value: c.config.PublicURL + "/" + c.name + "/1"}, {Name: "2", Value: c.config.PublicURL + "/" + c.name + "/2"}}},
		{Name: "IMPLEMENTATION", Value: xmlrpc.Struct{{Name: "code_version", Value: "patchbay " + c.config.SoftwareVersion}}},
	}
	switch c.name {
	case "ch":
		v = append(v, xmlrpc.Member{Name: "SERVICE_TYPES", Value: texts([]string{sliceAuthority, memberAuthority, aggregateManager})})
	case "sa":
		v = append(v, xmlrpc.Member{Name: "ROLES", Value: texts(Roles)})
	}
	var described xmlrpc.Struct
	for _, name := range objectsOf[c.name] {
		described = append(described, objects[name].describe()...)
	}
	return append(v, xmlrpc.Member{Name: "FIELDS", Value: described}), nil
}

func texts[T ~string](list []T) (values []xmlrpc.Value) {
	for _, s := range list {
		values = append(values, string(s))
	}
	return values
}
