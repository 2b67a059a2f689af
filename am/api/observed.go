package api

import (
	"time"

	"patchbay/am"
	"patchbay/am/api/xmlrpc"
	"patchbay/am/service"
)

// maxDetails limits the output of all services in one answer, in bytes. The descriptions of
// all interfaces have a limit of the same size. The details of a single sliver always fit.
const maxDetails = 4 << 20

// interfaceSize is the approximate size of an interface without its names, in bytes.
const interfaceSize = 256

// detailWriter adds reported details to the structs of slivers, up to maxDetails.
type detailWriter struct{ output, interfaces int } // bytes left for each kind

func newDetailWriter() detailWriter { return detailWriter{maxDetails, maxDetails} }

// add adds members that only Patchbay defines. Clients may ignore them.
func (t *detailWriter) add(s xmlrpc.Struct, r *service.Report) xmlrpc.Struct {
	if r.Image != "" {
		s = append(s, xmlrpc.Member{Name: "patchbay_image", Value: oneLine(r.Image)})
	}
	if !r.RenewableUntil.IsZero() {
		s = append(s, xmlrpc.Member{Name: "patchbay_renewable_until", Value: FormatTime(r.RenewableUntil)})
	}
	if list := t.services(&r.Sliver); len(list) > 0 {
		s = append(s, xmlrpc.Member{Name: "patchbay_services", Value: list})
	}
	if list := t.interfaceList(&r.Sliver); len(list) > 0 {
		s = append(s, xmlrpc.Member{Name: "patchbay_interfaces", Value: list})
	}
	return s
}

// services returns the results of the sliver's steps. It leaves an output empty if the outputs of the answer would together exceed
// maxDetails.
func (t *detailWriter) services(x *am.Sliver) []xmlrpc.Value {
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
			{Name: "stage", Value: x.Setup[i].Stage},
			{Name: "operation", Value: x.Setup[i].Operation},
			{Name: "what", Value: oneLine(x.Setup[i].Summary())},
			{Name: "state", Value: string(r.State)},
			{Name: "began", Value: stepTime(r.Began)},
			{Name: "ended", Value: stepTime(r.Ended)},
			{Name: "exit", Value: r.Exit},
			{Name: "message", Value: oneLine(r.Message)},
			{Name: "output", Value: output},
		})
	}
	return list
}

// stepTime returns "" for a time that the provider has not reported.
func stepTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return FormatTime(t)
}

// interfaceList returns all interfaces, or none if the interfaces of the answer would
// exceed maxDetails.
func (t *detailWriter) interfaceList(x *am.Sliver) []xmlrpc.Value {
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

// keepLines escapes text like oneLine, but keeps line breaks and tabs.
func keepLines(text string) string {
	return escape(text, func(r rune) bool { return (r < ' ' || r > '~') && r != '\n' && r != '\t' })
}
