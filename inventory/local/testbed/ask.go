package testbed

import (
	"encoding/json"
	"slices"
	"strings"

	"patchbay/inventory/local"
	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/image"
	"patchbay/inventory/provider"
)

// update is one resource of a set. What is counts as the record has it, so the
// caller's is is not read.
type update struct {
	Name   string `json:"name"`
	Should should `json:"should"`
}

// should is what differs; nil where nothing was asked.
type should struct {
	Ensure        *string   `json:"ensure"`
	Power         *string   `json:"power"`
	RestartSerial *string   `json:"restart_serial"`
	Component     *string   `json:"component"`
	SliverType    *string   `json:"sliver_type"`
	Image         *string   `json:"image"`
	Hostname      *string   `json:"hostname"`
	Users         *[]string `json:"users"`
	ClientID      *string   `json:"client_id"`
	SliceURN      *string   `json:"slice_urn"`
	SliverURN     *string   `json:"sliver_urn"`
	Interfaces    *[]string `json:"interfaces"`
	Setup         *[]string `json:"setup"` // of a new node only
}

// change puts what is asked into a node that is there.
func (w *should) change(a *asked) error {
	for _, fixed := range []struct {
		name string
		want *string
		is   string
	}{
		{"component", w.Component, a.Component}, {"sliver_type", w.SliverType, a.SliverType},
		{"image", w.Image, a.Image}, {"slice_urn", w.SliceURN, a.SliceURN},
	} {
		if fixed.want != nil && *fixed.want != fixed.is {
			return refused(provider.Failed, "the %s of a node cannot be changed; remove the node first", fixed.name)
		}
	}
	if w.Interfaces != nil {
		ifaces, err := parseInterfaces(*w.Interfaces)
		if err != nil || !slices.Equal(texts(ifaces), a.Interfaces) {
			return refused(provider.Failed, "the interfaces of a node cannot be changed; remove the node first")
		}
	}
	return w.assign(a)
}

// assign puts all that is asked into a, checked.
func (w *should) assign(a *asked) error {
	for to, from := range map[*string]*string{
		&a.Component: w.Component, &a.SliverType: w.SliverType, &a.Image: w.Image, &a.Hostname: w.Hostname, &a.Power: w.Power,
		&a.RestartSerial: w.RestartSerial, &a.ClientID: w.ClientID, &a.SliceURN: w.SliceURN, &a.SliverURN: w.SliverURN,
	} {
		if from != nil {
			*to = *from
		}
	}
	if w.Users != nil {
		a.Users = *w.Users
		if _, err := parseUsers(a.Users); err != nil {
			return refused(provider.Failed, "%v", err)
		}
	}
	if w.Interfaces != nil {
		ifaces, err := parseInterfaces(*w.Interfaces)
		if err != nil {
			return refused(provider.Failed, "%v", err)
		}
		a.Interfaces = texts(ifaces)
	}
	switch {
	case a.Power != provider.On && a.Power != provider.Off:
		return refused(provider.Failed, "power is %.40q and can be on or off", a.Power)
	case a.Hostname != "" && !agent.IsHostname(a.Hostname):
		return refused(provider.Failed, "%.80q cannot be a hostname; use up to 64 letters, digits, hyphens and dots", a.Hostname)
	}
	for _, text := range []struct{ name, value string }{
		{"restart_serial", a.RestartSerial}, {"client_id", a.ClientID}, {"slice_urn", a.SliceURN}, {"sliver_urn", a.SliverURN},
	} {
		if len(text.value) > maxText || !oneLine(text.value) {
			return refused(provider.Failed, "%s is not one line of at most %d bytes", text.name, maxText)
		}
	}
	return nil
}

// isID accepts what can be the name of a node: a UUID in small letters.
func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		hyphen := i == 8 || i == 13 || i == 18 || i == 23
		if hyphen != (s[i] == '-') || !hyphen && !strings.Contains("0123456789abcdef", s[i:i+1]) {
			return false
		}
	}
	return true
}

// check tells what a new node may take, or that there is no such thing.
func (t *Testbed) check(a *asked, imageNames []string) (local.SliverType, error) {
	switch {
	case a.Component == "":
		return local.SliverType{}, refused(provider.Failed, "a node needs a component")
	case a.Component != t.settings.Component:
		return local.SliverType{}, refused(provider.Unknown, "the local testbed has no component %.80s; there is %s", a.Component, t.settings.Component)
	case a.Image != "" && !slices.Contains(imageNames, a.Image):
		return local.SliverType{}, refused(provider.Unknown, "there is no image %.80s; there are %s", a.Image, listed(imageNames))
	}
	var names []string
	for _, kind := range t.settings.SliverTypes {
		if kind.Name == a.SliverType || a.SliverType == "" {
			return kind, nil
		}
		names = append(names, kind.Name)
	}
	return local.SliverType{}, refused(provider.Unknown, "there is no sliver type %.80s; there are %s", a.SliverType, listed(names))
}

func listed(words []string) string { return strings.Join(words, ", ") }

// imageName is the image that was asked for.
func (a *asked) imageName() string {
	if a.Image == "" {
		return image.Host
	}
	return a.Image
}

// changed is the entry in changes: every attribute that is not as it was, nil
// when there is none.
func changed(old, next *asked) object {
	was, is := old.attributes(), next.attributes()
	c := object{}
	if next.Removing {
		return object{provider.AttrEnsure: object{"is": provider.Absent, "was": provider.Present}}
	}
	for name, v := range is {
		a, _ := json.Marshal(v)
		b, _ := json.Marshal(was[name])
		if string(a) != string(b) {
			c[name] = object{"is": v, "was": was[name]}
		}
	}
	if len(c) == 0 {
		return nil
	}
	return c
}

// attributes are those that may be set, as get reports them.
func (a *asked) attributes() provider.Resource {
	if a == nil {
		return provider.Resource{provider.AttrEnsure: provider.Absent}
	}
	users, interfaces := a.Users, a.Interfaces
	if users == nil {
		users = []string{}
	}
	if interfaces == nil {
		interfaces = []string{}
	}
	return provider.Resource{
		provider.AttrEnsure: provider.Present, provider.AttrComponent: a.Component, provider.AttrSliverType: a.SliverType,
		provider.AttrImage: a.Image, provider.AttrHostname: a.Hostname, provider.AttrPower: a.Power,
		provider.AttrRestartSerial: a.RestartSerial, provider.AttrUsers: users, provider.AttrClientID: a.ClientID,
		provider.AttrSliceURN: a.SliceURN, provider.AttrSliverURN: a.SliverURN, provider.AttrInterfaces: interfaces,
	}
}
