package schemas

// Namespace is the namespace of GENI RSpec version 3, in documents of all kinds.
const Namespace = "http://www.geni.net/resources/rspec/3"

// ExtensionBase begins the namespaces of Patchbay's own extensions.
const ExtensionBase = "http://patchbay.example.org/rspec/ext"

// Namespaces of extensions. Some extensions have two namespaces: Patchbay reads both, and
// never writes the one with Old in its name.
const (
	Delay         = "http://www.protogeni.net/resources/rspec/ext/delay/1"
	Emulab        = "http://www.protogeni.net/resources/rspec/ext/emulab/1"
	JFed          = "http://jfed.iminds.be/rspec/ext/jfed/1"
	Match         = ExtensionBase + "/match/1"
	Monitoring    = "http://schemas.fed4fire.eu/schemas/rspec/ext/f4f_monitoring/1"
	OldMonitoring = "http://schemas.fed4fire.eu/schemas/rspec/ext/monitoring/1"
	NITOS         = "http://nitlab.inf.uth.gr/schema/sfa/rspec/1"
	Net           = ExtensionBase + "/net/1"
	OpState       = "http://www.geni.net/resources/rspec/ext/opstate/1"
	Origin        = ExtensionBase + "/origin/1"
	Proxy         = "http://jfed.iminds.be/proxy/1.0"
	PXE           = "http://www.protogeni.net/resources/rspec/ext/pxe/1"
	Schedule      = ExtensionBase + "/schedule/1"
	Setup         = ExtensionBase + "/setup/1"
	SharedVLAN    = "http://www.geni.net/resources/rspec/ext/shared-vlan/1"
	OldSharedVLAN = "http://www.protogeni.net/resources/rspec/ext/shared-vlan/1"
	SliceInfo     = "http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/slice-info/1"
	SliverInfo    = "http://groups.geni.net/exogeni/attachment/wiki/RspecExtensions/sliver-info/1"
	Stitching     = "http://hpn.east.isi.edu/rspec/ext/stitch/0.1/"
	Template      = ExtensionBase + "/template/1"
	TOSCA         = "http://docs.oasis-open.org/tosca/ns/2011/12"
	TOSCABase     = TOSCA + "/ToscaBaseTypes" // the types of artifacts
	User          = "http://www.geni.net/resources/rspec/ext/user/1"
	OldUser       = "http://www.protogeni.net/resources/rspec/ext/user/1"
)
