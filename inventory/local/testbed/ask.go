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

// update is one resource of a set. The record says how the resource is, so what
// the caller says of that is not read.
type update struct {
	Name   string `json:"name"`
	Should should `json:"should"`
}

// should has the attributes that are to change; nil: this one is not.
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

// text is an attribute that is one text: what is asked (nil: nothing), and where
// it is kept.
type text struct {
	name     string
	want, is *string
	fixed    bool // it cannot be changed
	free     bool // any line of at most maxText bytes
}

func (w *should) texts(a *asked) []text {
	return []text{
		{"component", w.Component, &a.Component, true, false},
		{"sliver_type", w.SliverType, &a.SliverType, true, false},
		{"image", w.Image, &a.Image, true, false},
		{"slice_urn", w.SliceURN, &a.SliceURN, true, true},
		{"hostname", w.Hostname, &a.Hostname, false, false},
		{"power", w.Power, &a.Power, false, false},
		{"restart_serial", w.RestartSerial, &a.RestartSerial, false, true},
		{"client_id", w.ClientID, &a.ClientID, false, true},
		{"sliver_urn", w.SliverURN, &a.SliverURN, false, true},
	}
}

// change puts what is asked into a node that exists.
func (w *should) change(a *asked) error {
	for _, text := range w.texts(a) {
		if text.fixed && text.want != nil && *text.want != *text.is {
			return refused(provider.Failed, "the %s of a node cannot be changed; remove the node first", text.name)
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
	for _, text := range w.texts(a) {
		if text.want != nil {
			*text.is = *text.want
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
	for _, text := range w.texts(a) {
		if text.free && (len(*text.is) > maxText || !oneLine(*text.is)) {
			return refused(provider.Failed, "%s is not one line of at most %d bytes", text.name, maxText)
		}
	}
	return nil
}

// check returns the sliver type of a new node, and refuses a component, image or
// type that does not exist.
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

// hostname is that of the node called id: the one that was asked for, if any.
func (a *asked) hostname(id string) string {
	if a.Hostname == "" {
		return id[:min(len(id), 8)]
	}
	return a.Hostname
}
