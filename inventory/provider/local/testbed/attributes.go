package testbed

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"patchbay/inventory/node/steprunner"
	"patchbay/inventory/provider"
	"patchbay/inventory/provider/local"
	"patchbay/inventory/provider/local/image"
	"patchbay/rspec/hostname"
)

type update = provider.CallUpdate[requestedChanges]

type requestedChanges struct{ provider.Requested }

// textAttribute has the requested value of an attribute (nil: no change), and its field in the
// desired state.
type textAttribute struct {
	name               string
	requested, current *string
	fixed              bool // it cannot be changed later
	free               bool // any line of at most maxText bytes
}

// textAttributes returns the attributes with their requested and current values, and then the
// fields fixed and free.
func (changes *requestedChanges) textAttributes(a *desired) []textAttribute {
	return []textAttribute{
		{"component", changes.Component, &a.Component, true, false},
		{"sliver_type", changes.SliverType, &a.SliverType, true, false},
		{"image", changes.Image, &a.Image, true, false},
		{"slice_urn", changes.SliceURN, &a.SliceURN, true, true},
		{"hostname", changes.Hostname, &a.Hostname, false, false},
		{"power", changes.Power, &a.Power, false, false},
		{"restart_serial", changes.RestartSerial, &a.RestartSerial, false, true},
		{"client_id", changes.ClientID, &a.ClientID, false, true},
		{"sliver_urn", changes.SliverURN, &a.SliverURN, false, true},
		{"change_serial", changes.ChangeSerial, &a.ChangeSerial, false, true},
		{"setup_stage", changes.SetupStage, &a.SetupStage, false, false},
	}
}

// isChange reports whether the interfaces and the setup of the existing node a may change.
func (changes *requestedChanges) isChange(a *desired) bool {
	return changes.ChangeSerial != nil && *changes.ChangeSerial != a.ChangeSerial
}

// applyToExisting refuses changes of attributes that are fixed for a node's life.
func (changes *requestedChanges) applyToExisting(a *desired) error {
	for _, text := range changes.textAttributes(a) {
		if text.fixed && text.requested != nil && *text.requested != *text.current {
			return provider.Refuse(provider.Failed, "the %s of a node cannot be changed; remove the node first", text.name)
		}
	}
	if changes.Interfaces != nil && !changes.isChange(a) {
		ifaces, err := parseInterfaces(*changes.Interfaces)
		if err != nil || !slices.Equal(interfaceTexts(ifaces), a.Interfaces) {
			return provider.Refuse(provider.Failed, "the interfaces of a node cannot be changed; remove the node first")
		}
	}
	return changes.apply(a)
}

// apply applies the changes to a. It then checks the result and refuses invalid values.
func (changes *requestedChanges) apply(a *desired) error {
	for _, text := range changes.textAttributes(a) {
		if text.requested != nil {
			*text.current = *text.requested
		}
	}
	if changes.Users != nil {
		a.Users = *changes.Users
		if _, err := parseUsers(a.Users); err != nil {
			return provider.Refuse(provider.Failed, "%v", err)
		}
	}
	if changes.Interfaces != nil {
		ifaces, err := parseInterfaces(*changes.Interfaces)
		if err != nil {
			return provider.Refuse(provider.Failed, "%v", err)
		}
		a.Interfaces = interfaceTexts(ifaces)
	}
	switch {
	case a.Power != provider.On && a.Power != provider.Off:
		return provider.Refuse(provider.Failed, "power is %.40q; it must be on or off", a.Power)
	case a.Hostname != "" && !hostname.IsHost(a.Hostname):
		return provider.Refuse(provider.Failed, "%.80q cannot be a hostname; use up to 64 letters, digits, hyphens and dots", a.Hostname)
	}
	if changes.SetupStage != nil {
		if _, err := steprunner.ParseStage(*changes.SetupStage); err != nil {
			return provider.Refuse(provider.Failed, "%v", err)
		}
	}
	for _, text := range changes.textAttributes(a) {
		if text.free && (len(*text.current) > maxText || !isOneLine(*text.current)) {
			return provider.Refuse(provider.Failed, "%s must be one line of at most %d bytes", text.name, maxText)
		}
	}
	return nil
}

// checkNew returns the requested sliver type or, without one, the first type in the settings. It
// refuses an unknown component, image or type.
func (t *Testbed) checkNew(a *desired, imageNames []string) (local.SliverType, error) {
	switch {
	case a.Component == "":
		return local.SliverType{}, provider.Refuse(provider.Failed, "a node needs a component")
	case a.Component != t.settings.Component:
		return local.SliverType{}, provider.Refuse(provider.Unknown, "the local testbed has no component %.80s; its component is %s", a.Component, t.settings.Component)
	case a.Image != "" && !slices.Contains(imageNames, a.Image):
		return local.SliverType{}, provider.Refuse(provider.Unknown, "there is no image %.80s; available: %s", a.Image, joinNames(imageNames))
	}
	var names []string
	for _, kind := range t.settings.SliverTypes {
		if kind.Name == a.SliverType || a.SliverType == "" {
			return kind, nil
		}
		names = append(names, kind.Name)
	}
	return local.SliverType{}, provider.Refuse(provider.Unknown, "there is no sliver type %.80s; available: %s", a.SliverType, joinNames(names))
}

func joinNames(words []string) string { return strings.Join(words, ", ") }

func (a *desired) imageName() string {
	if a.Image == "" {
		return image.Host
	}
	return a.Image
}

// changesBetween returns the changed attributes in the form of an answer to "set", or nil. For a
// removal it returns only the attribute "ensure".
func changesBetween(oldState, newState *desired) object {
	was, is := oldState.attributes(), newState.attributes()
	c := object{}
	if newState.Removing {
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

// attributes has the form of an answer to "get". The receiver a is nil for an absent node.
func (a *desired) attributes() provider.Resource {
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
		provider.AttrChangeSerial: a.ChangeSerial, provider.AttrSetupStage: strconv.Itoa(a.stage()), provider.AttrSliceURN: a.SliceURN, provider.AttrSliverURN: a.SliverURN, provider.AttrInterfaces: interfaces,
	}
}

// noStage is the value of "setup_stage" with which a node runs no step.
const noStage = "-1"

// stage returns the attribute "setup_stage" as a number, or 0 if it is empty or no number.
func (a *desired) stage() int {
	n, _ := strconv.Atoi(a.SetupStage)
	return n
}

// hostname returns the first part of the requested hostname, which other nodes know as a whole, too. It
// returns the first eight characters of the node's id if no hostname is requested.
func (a *desired) hostname(id string) string {
	if a.Hostname == "" {
		return id[:min(len(id), 8)]
	}
	name, _, _ := strings.Cut(a.Hostname, ".")
	return name
}
