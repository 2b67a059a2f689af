package provider

import (
	"bytes"
	"encoding/json"
	"net"
	"strings"
	"time"

	"patchbay/am"
	"patchbay/am/urn"
)

// port holds the keys that Diff compares in an item of the attribute "interfaces". The item
// is an interface in the experiment's network or, if Role is RoleControl, the node's public
// interface. Providers may add other keys.
type port struct {
	ClientID      string   `json:"client_id,omitempty"`
	Link          string   `json:"link,omitempty"`
	Slice         string   `json:"slice,omitempty"` // URN of the link's slice
	Component     string   `json:"component,omitempty"`
	VLAN          int      `json:"vlan,omitempty"`
	Addresses     []string `json:"addresses,omitempty"`
	Role          string   `json:"role,omitempty"`
	PublicAddress string   `json:"public_address,omitempty"`
}

// portItem is an item as Patchbay writes it. Keys that are not in port came with later versions
// of Patchbay. A provider that does not know these keys does not store them, so Diff does not
// compare them. Their values never change while the node exists.
type portItem struct {
	port
	SharedVLAN string     `json:"shared_vlan,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	To         []string `json:"to,omitempty"`          // client_ids of the receiving interfaces; empty: all
	Capacity   int64    `json:"capacity,omitempty"`    // kbit/s
	Latency    float64  `json:"latency,omitempty"`     // ms
	PacketLoss float64  `json:"packet_loss,omitempty"` // per cent
}

// interfaces returns one item for each interface of the sliver, in the order of the request, and
// then one for the sliver's public address, if there is one. The key "component" names the
// physical interface. If the sliver's record lacks that name, portName returns it for the
// interface's URN. If portName is nil or returns "", the name is the name part of the URN,
// without the component's name and the colon at its start.
func interfaces(s *am.Sliver, component string, portName func(urn.URN) string) []string {
	list := make([]string, 0, len(s.Interfaces)+1)
	for _, i := range s.Interfaces {
		p := portItem{port: port{ClientID: i.ClientID, Link: i.Link, VLAN: i.VLAN}, SharedVLAN: i.SharedVLAN}
		if i.Link != "" {
			p.Slice = s.Slice.String()
		}
		if !i.Component.IsZero() {
			if p.Component = i.ComponentName; p.Component == "" && portName != nil {
				p.Component = portName(i.Component)
			}
			if p.Component == "" {
				p.Component = strings.TrimPrefix(i.Component.Name, component+":")
			}
		}
		for _, a := range i.Addresses {
			p.Addresses = append(p.Addresses, a.String())
		}
		for _, q := range i.Properties {
			p.Properties = append(p.Properties, property{q.To, q.Capacity, float64(q.Latency) / float64(time.Millisecond), q.Loss})
		}
		list = append(list, encode(p))
	}
	if s.PublicAddress.IsValid() {
		list = append(list, encode(port{Role: RoleControl, PublicAddress: s.PublicAddress.String()}))
	}
	return list
}

// encode returns an item as JSON. It panics if the encoding fails, which does not happen for the types in this
// package.
func encode(item any) string {
	b, err := marshalPlain(item)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// marshalPlain returns v as JSON without escapes of HTML. Items are JSON within JSON, where an escaped character
// would take seven bytes.
func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// macsAndEmulators returns the MAC addresses and the emulators in the items of "interfaces", by client_id. It drops
// invalid values. If several items are about one interface, the first valid value counts.
func macsAndEmulators(items []string) (macs, emulators map[string]string) {
	note := func(m *map[string]string, id, text string, ok bool) {
		if _, twice := (*m)[id]; twice || !ok {
			return
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[id] = text
	}
	for _, s := range items {
		var i struct {
			ClientID string          `json:"client_id"`
			MAC      json.RawMessage `json:"mac"`
			Emulator json.RawMessage `json:"emulator"`
		}
		if json.Unmarshal([]byte(s), &i) != nil || i.ClientID == "" {
			continue
		}
		mac, ok := hardwareAddress(textOf(i.MAC))
		note(&macs, i.ClientID, mac, ok)
		emulator := textOf(i.Emulator)
		note(&emulators, i.ClientID, emulator, isEmulator(emulator))
	}
	return macs, emulators
}

// textOf returns the text of a JSON string; "" for another value.
func textOf(raw json.RawMessage) string {
	s, _ := unquote(raw)
	return s
}

// isEmulator reports whether s can be the name of an emulator, such as tbf+netem.
func isEmulator(s string) bool {
	return s != "" && len(s) <= maxNameLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789+-_.") == ""
}

// hardwareAddress returns s in canonical form. ok is false unless s is a unicast Ethernet
// address of 48 bits that is not zero.
func hardwareAddress(s string) (address string, ok bool) {
	if len(s) > len("00:00:00:00:00:00") {
		return "", false
	}
	mac, err := net.ParseMAC(s)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, 6)) {
		return "", false
	}
	return mac.String(), true
}
