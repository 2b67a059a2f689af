package conformance

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"patchbay/am/api/xmlrpc"
)

func versionChecks(version int) []check {
	api := fmt.Sprintf("AM API v%d, GetVersion", version)
	name := func(rule string) string { return fmt.Sprintf("version%d.%s", version, rule) }
	list := []check{
		{name("answer"), api, []string{"transport.answers"}, false, func(p *probe) error { return p.getVersion(p.am[version]) }},
		{name("urls"), api + ", geni_api_versions", []string{name("answer")}, false, func(p *probe) error { return p.checkURLs(p.am[version]) }},
		{name("rspecs"), api + ", geni_request_rspec_versions", []string{name("answer")}, false, func(p *probe) error {
			for _, list := range []string{"geni_request_rspec_versions", "geni_ad_rspec_versions"} {
				if err := checkRSpecVersions(p.am[version].facts, list); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	if version == 3 {
		list = append(list, check{name("credentials"), api + ", geni_credential_types", []string{name("answer")}, false, func(p *probe) error {
			return checkCredentialTypes(p.am[version].facts)
		}})
	}
	return list
}

func (p *probe) getVersion(a *aggregate) error {
	if a != p.am[p.first] {
		if err := p.findOther(a); err != nil {
			return err
		}
	}
	v, err := p.succeed(a, "GetVersion")
	if err != nil {
		return err
	}
	facts, ok := v.(xmlrpc.Struct)
	if !ok {
		return fmt.Errorf("the value is %T, not a struct", v)
	}
	if api, _ := facts.Get("geni_api"); api != a.version {
		return fmt.Errorf("geni_api is %v at %s, not %d", api, a.url, a.version)
	}
	a.facts = facts
	if a.urn = text(facts, "urn"); a.urn == "" {
		a.urn = text(facts, "geni_urn")
	}
	return nil
}

// findOther makes calls of the other version go to the URL that the first version's GetVersion
// names, unless the configuration names another URL.
func (p *probe) findOther(a *aggregate) error {
	urls, _ := p.am[p.first].facts.Get("geni_api_versions")
	list, _ := urls.(xmlrpc.Struct)
	if len(p.am[p.first].facts) == 0 {
		return notTried("version %d has no usable GetVersion", p.am[p.first].version)
	}
	named := text(list, strconv.Itoa(a.version))
	if named == "" {
		return notOffered("GetVersion names no URL of version %d", a.version)
	}
	if p.config.Other != "" {
		return nil
	}
	c, err := p.newClient(named, p.config.CertFile, p.config.KeyFile)
	if err != nil {
		return err
	}
	a.url, a.client = named, c
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func (p *probe) checkURLs(a *aggregate) error {
	v, ok := a.facts.Get("geni_api_versions")
	urls, isStruct := v.(xmlrpc.Struct)
	if !ok || !isStruct {
		return fmt.Errorf("geni_api_versions is %T, not a struct", v)
	}
	if _, ok := urls.Get(strconv.Itoa(a.version)); !ok {
		return fmt.Errorf("geni_api_versions lacks version %d itself", a.version)
	}
	own, err := url.Parse(a.url)
	if err != nil {
		return err
	}
	for _, m := range urls {
		s, _ := m.Value.(string)
		u, err := url.Parse(s)
		if err != nil || u.Host == "" {
			return fmt.Errorf("the URL of version %s is %q", m.Name, s)
		}
		if isLoopback(u.Hostname()) && !isLoopback(own.Hostname()) {
			return fmt.Errorf("the URL of version %s is %q, which means another host for each client", m.Name, s)
		}
	}
	return nil
}

func checkRSpecVersions(facts xmlrpc.Struct, name string) error {
	v, _ := facts.Get(name)
	list, ok := v.([]xmlrpc.Value)
	if !ok || len(list) == 0 {
		return fmt.Errorf("%s is %T with no elements", name, v)
	}
	var seen []string
	for _, v := range list {
		s, ok := v.(xmlrpc.Struct)
		if !ok {
			return fmt.Errorf("%s has %T, not a struct", name, v)
		}
		for _, member := range []string{"type", "version", "schema", "namespace"} {
			if x, ok := s.Get(member); !ok {
				return fmt.Errorf("%s lacks %s", name, member)
			} else if _, ok := x.(string); !ok {
				return fmt.Errorf("%s has the %s %v, which is no text", name, member, x)
			}
		}
		if x, _ := s.Get("extensions"); x == nil {
			return fmt.Errorf("%s lacks extensions", name)
		}
		id := strings.ToLower(text(s, "type") + " " + text(s, "version"))
		if slices.Contains(seen, id) {
			return fmt.Errorf("%s lists %s twice", name, id)
		}
		seen = append(seen, id)
	}
	if !slices.Contains(seen, "geni 3") {
		return fmt.Errorf("%s lists %v, and not GENI 3", name, seen)
	}
	return nil
}

func checkCredentialTypes(facts xmlrpc.Struct) error {
	v, _ := facts.Get("geni_credential_types")
	list, ok := v.([]xmlrpc.Value)
	if !ok {
		return fmt.Errorf("geni_credential_types is %T, not an array", v)
	}
	for _, v := range list {
		s, _ := v.(xmlrpc.Struct)
		if text(s, "geni_type") == "geni_sfa" && text(s, "geni_version") != "" {
			return nil
		}
	}
	return fmt.Errorf("geni_credential_types lacks geni_sfa with a version that is a text")
}
