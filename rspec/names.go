package rspec

// Namespaces and schemas that this package reads or writes.
const (
	// Namespace is that of RSpec version 3.
	Namespace = "http://www.geni.net/resources/rspec/3"
	// RequestSchema, ManifestSchema and AdSchema are where its schemas are published.
	RequestSchema  = Namespace + "/request.xsd"
	ManifestSchema = Namespace + "/manifest.xsd"
	AdSchema       = Namespace + "/ad.xsd"

	opstateSpace  = "http://www.geni.net/resources/rspec/ext/opstate/1"
	opstateSchema = opstateSpace + "/ad.xsd"
	emulabSpace   = "http://www.protogeni.net/resources/rspec/ext/emulab/1"
	emulabSchema  = emulabSpace + "/ptop_extension.xsd"
	userSpace     = "http://www.geni.net/resources/rspec/ext/user/1"
	userSchema    = userSpace + "/manifest.xsd"
	oldUserSpace  = "http://www.protogeni.net/resources/rspec/ext/user/1" // read, never written
	proxySpace    = "http://jfed.iminds.be/proxy/1.0"
	proxySchema   = proxySpace + "/proxy.xsd"
	vnodeSchema   = emulabSpace + "/vtop_extension.xsd"
	sliverSpace   = "http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1"
	sliverSchema  = sliverSpace + "/sliver_info.xsd?format=raw"

	sharedVLANSpace    = "http://www.geni.net/resources/rspec/ext/shared-vlan/1"
	sharedVLANAdSchema = sharedVLANSpace + "/ad.xsd"
	oldSharedVLANSpace = "http://www.protogeni.net/resources/rspec/ext/shared-vlan/1" // read, never written
	monitoringSpace    = "http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1"
	monitoringAdSchema = monitoringSpace + "/advertisement.xsd"
	oldMonitoringSpace = "http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1" // read, never written

	xsiSpace = "http://www.w3.org/2001/XMLSchema-instance"
	xmlSpace = "http://www.w3.org/XML/1998/namespace"
)
