package rspec

import "patchbay/schemas"

// Namespaces and schemas that this package reads or writes.
const (
	// Namespace is the namespace of RSpec version 3.
	Namespace = schemas.Namespace
	// RequestSchema, ManifestSchema and AdSchema are the addresses of the schemas of
	// RSpec version 3.
	RequestSchema  = Namespace + "/request.xsd"
	ManifestSchema = Namespace + "/manifest.xsd"
	AdSchema       = Namespace + "/ad.xsd"

	// ExtensionBase begins the namespaces of Patchbay's own extensions.
	ExtensionBase = schemas.ExtensionBase

	opstateSpace  = schemas.OpState
	opstateSchema = opstateSpace + "/ad.xsd"
	emulabSpace   = schemas.Emulab
	emulabSchema  = emulabSpace + "/ptop_extension.xsd"
	userSpace     = schemas.User
	userSchema    = userSpace + "/manifest.xsd"
	oldUserSpace  = schemas.OldUser // read, never written
	proxySpace    = schemas.Proxy
	proxySchema   = proxySpace + "/proxy.xsd"
	vnodeSchema   = emulabSpace + "/vtop_extension.xsd"
	sliverSpace   = schemas.SliverInfo
	sliverSchema  = sliverSpace + "/sliver_info.xsd?format=raw"
	scheduleSpace = schemas.Schedule
	setupSpace    = schemas.Setup
	toscaSpace    = schemas.TOSCA
	toscaBase     = schemas.TOSCABase
	netSpace      = schemas.Net
	nitosSpace    = schemas.NITOS
	originSpace   = schemas.Origin
	originSchema  = originSpace + "/origin.xsd"
	templateSpace = schemas.Template
	matchSpace    = schemas.Match
	matchSchema   = matchSpace + "/match.xsd"
	matchAdSchema = matchSpace + "/match-ad.xsd"

	sharedVLANSpace       = schemas.SharedVLAN
	sharedVLANAdSchema    = sharedVLANSpace + "/ad.xsd"
	oldSharedVLANSpace    = schemas.OldSharedVLAN // read, never written
	monitoringSpace       = schemas.Monitoring
	monitoringAdSchema    = monitoringSpace + "/advertisement.xsd"
	oldMonitoringSpace    = schemas.OldMonitoring
	oldMonitoringAdSchema = oldMonitoringSpace + "/advertisement.xsd"

	xsiSpace = "http://www.w3.org/2001/XMLSchema-instance"
	xmlSpace = "http://www.w3.org/XML/1998/namespace"
)
