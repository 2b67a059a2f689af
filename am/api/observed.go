package api

import (
	"patchbay/am"
	"patchbay/am/service"
	"patchbay/am/xmlrpc"
)

// maxTold is how many bytes of the output of services one answer has, and how many
// of interfaces; each sliver asked about alone has all.
const maxTold = 4 << 20

// interfaceSize is what an interface takes beside its names, in bytes, about.
const interfaceSize = 256

// teller adds to slivers what their providers tell beside their states.
type teller struct{ output, interfaces int } // bytes left

func newTeller() teller { return teller{maxTold, maxTold} }

// add adds what became of services, and by what means links are made. Both are our
// own members, which no client has to know.
func (t *teller) add(s xmlrpc.Struct, r *service.Report) xmlrpc.Struct {
	if list := t.services(&r.Sliver); len(list) > 0 {
		s = append(s, xmlrpc.Member{Name: "patchbay_services", Value: list})
	}
	if list := t.wires(&r.Sliver); len(list) > 0 {
		s = append(s, xmlrpc.Member{Name: "patchbay_interfaces", Value: list})
	}
	return s
}

func (t *teller) services(x *am.Sliver) []xmlrpc.Value {
	var list []xmlrpc.Value
	for i := range min(len(x.Setup), len(x.Observed.Services)) {
		r := x.Observed.Services[i]
		output := keepLines(r.Output)
		if t.output -= len(output); t.output < 0 {
			output = ""
		}
		list = append(list, xmlrpc.Struct{
			{Name: "step", Value: i + 1},
			{Name: "kind", Value: x.Setup[i].Kind},
			{Name: "what", Value: oneLine(x.Setup[i].Summary())},
			{Name: "state", Value: string(r.State)},
			{Name: "exit", Value: r.Exit},
			{Name: "message", Value: oneLine(r.Message)},
			{Name: "output", Value: output},
		})
	}
	return list
}

// wires are all interfaces of a sliver, or none when they do not fit any more.
func (t *teller) wires(x *am.Sliver) []xmlrpc.Value {
	for _, i := range x.Interfaces {
		t.interfaces -= interfaceSize + len(i.ClientID) + len(i.Link)
	}
	if t.interfaces < 0 {
		return nil
	}
	var list []xmlrpc.Value
	for _, i := range x.Interfaces {
		list = append(list, xmlrpc.Struct{
			{Name: "client_id", Value: i.ClientID},
			{Name: "link", Value: i.Link},
			{Name: "mac", Value: x.Observed.MACs[i.ClientID]},
			{Name: "emulator", Value: x.Observed.Emulators[i.ClientID]},
		})
	}
	return list
}

// keepLines is text whose lines stay and whose other characters are as in oneLine.
func keepLines(text string) string {
	return byNumber(text, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' })
}
