package site

// Names of a site's files.
const (
	ConfigName    = "patchbay.yaml"
	InventoryName = "inventory.yaml"
	AuthorityDir  = "authority"
	TrustedDir    = "trusted"
	ProvidersDir  = "providers"
	UsersDir      = "users"
	RequestName   = "request.xml"
	PolicyName    = "policy.yaml"
)
