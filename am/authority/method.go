package authority

import (
	"maps"

	"patchbay/am/api/xmlrpc"
)

// objectsOf are the objects of each service.
var objectsOf = map[string][]string{
	"ch": {objectService},
	"sa": {objectSlice, objectSliverInfo, objectProject},
	"ma": {objectMember, objectKey},
}

// objects is filled by init, because the functions of the objects refer to it.
var objects map[string]*object

func init() {
	objects = map[string]*object{
		objectService: &services, objectSlice: &sliceObject, objectSliverInfo: &sliverInfoObject,
		objectProject: &projectObject, objectMember: &memberObject, objectKey: &keyObject,
	}
}

// The methods of version 2.
var (
	registry2 = map[string]method{
		"lookup":                      {args: "TCO", anyone: true, run: lookupList},
		"get_trust_roots":             {args: "O", anyone: true, run: getTrustRoots},
		"lookup_authorities_for_urns": {args: "LO", anyone: true, run: lookupAuthorities},
	}
	slices2 = with(objectMethods, map[string]method{
		"get_credentials":   {args: "UCO", changes: true, run: getSliceCredentials},
		"lookup_members":    {args: "TUCO", run: lookupMembers},
		"lookup_for_member": {args: "TUCO", run: lookupForMember},
		"modify_membership": {args: "TUCO", changes: true, run: modifyMembership},
	})
	members2 = with(objectMethods, map[string]method{
		"get_credentials": {args: "UCO", changes: true, run: getUserCredentials},
		"patchbay_server": {args: "", anyone: true, run: serverCertificates},
		"patchbay_accept": {args: "X", anyone: true, changes: true, run: acceptInvitation},
		"patchbay_link":   {args: "", changes: true, run: signInLink},
	})
	objectMethods = map[string]method{
		"create": {args: "TCO", changes: true, run: create},
		"lookup": {args: "TCO", run: lookup},
		"update": {args: "TUCO", changes: true, run: update},
		"delete": {args: "TUCO", changes: true, run: deleteObject},
	}
)

// The methods of version 1 have the type of the object in their names.
var (
	registry1 = with(registry2, map[string]method{
		"lookup_slice_authorities":  {args: "O", object: objectService, anyone: true, run: lookupServices(sliceAuthority)},
		"lookup_member_authorities": {args: "O", object: objectService, anyone: true, run: lookupServices(memberAuthority)},
		"lookup_aggregates":         {args: "O", object: objectService, anyone: true, run: lookupServices(aggregateManager)},
	})
	slices1 = map[string]method{
		"get_credentials": {args: "UCO", changes: true, run: getSliceCredentials},

		"create_slice":             {args: "CO", object: objectSlice, changes: true, run: create},
		"lookup_slices":            {args: "CO", object: objectSlice, run: lookup},
		"update_slice":             {args: "UCO", object: objectSlice, changes: true, run: update},
		"modify_slice_membership":  {args: "UCO", object: objectSlice, changes: true, run: modifyMembership},
		"lookup_slice_members":     {args: "UCO", object: objectSlice, run: lookupMembers},
		"lookup_slices_for_member": {args: "UCO", object: objectSlice, run: lookupForMember},

		"create_sliver_info": {args: "CO", object: objectSliverInfo, changes: true, run: create},
		"lookup_sliver_info": {args: "CO", object: objectSliverInfo, run: lookup},
		"update_sliver_info": {args: "UCO", object: objectSliverInfo, changes: true, run: update},
		"delete_sliver_info": {args: "UCO", object: objectSliverInfo, changes: true, run: deleteObject},

		"create_project":             {args: "CO", object: objectProject, changes: true, run: create},
		"lookup_projects":            {args: "CO", object: objectProject, run: lookup},
		"update_project":             {args: "UCO", object: objectProject, changes: true, run: update},
		"modify_project_membership":  {args: "UCO", object: objectProject, changes: true, run: modifyMembership},
		"lookup_project_members":     {args: "UCO", object: objectProject, run: lookupMembers},
		"lookup_projects_for_member": {args: "UCO", object: objectProject, run: lookupForMember},
	}
	members1 = map[string]method{
		"get_credentials": {args: "UCO", changes: true, run: getUserCredentials},

		"lookup_public_member_info":      {args: "CO", object: objectMember, run: lookupOf(public)},
		"lookup_identifying_member_info": {args: "CO", object: objectMember, run: lookupOf(identifying)},
		"lookup_private_member_info":     {args: "CO", object: objectMember, run: lookupOf(private)},
		"update_member_info":             {args: "UCO", object: objectMember, changes: true, run: update},

		"create_key":  {args: "UCO", object: objectKey, changes: true, run: createKey1},
		"lookup_keys": {args: "CO", object: objectKey, run: lookupKeys1},
		"update_key":  {args: "UKCO", object: objectKey, changes: true, run: update},
		"delete_key":  {args: "UKCO", object: objectKey, changes: true, run: deleteObject},
	}
)

func with(a, b map[string]method) map[string]method {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

func create(c *call) (xmlrpc.Value, error) {
	if c.object.create == nil {
		return nil, refuse(NotImplemented, "%s cannot be created here", c.object.name)
	}
	f, err := c.object.readCreate(c.options)
	if err != nil {
		return nil, err
	}
	r, err := c.object.create(c, f)
	if err != nil {
		return nil, err
	}
	return c.object.structOf(r), nil
}

func update(c *call) (xmlrpc.Value, error) {
	if c.object.update == nil {
		return nil, refuse(NotImplemented, "%s cannot be updated here", c.object.name)
	}
	f, err := c.object.readFields(c.options, func(x field) bool { return x.update })
	if err != nil {
		return nil, err
	}
	return nil, c.object.update(c, c.id(), f)
}

func deleteObject(c *call) (xmlrpc.Value, error) {
	if c.object.remove == nil {
		return nil, refuse(NotImplemented, "%s cannot be deleted here: it ends when it expires", c.object.name)
	}
	return nil, c.object.remove(c, c.id())
}

// id returns the URN or id of the object of update and delete.
func (c *call) id() string {
	if c.key != "" {
		return c.key
	}
	return c.target
}

func lookup(c *call) (xmlrpc.Value, error) {
	rows, err := c.object.lookup(c)
	return c.object.dictionary(rows), err
}

// lookupList answers with a list, as clients of the registry expect.
func lookupList(c *call) (xmlrpc.Value, error) {
	rows, err := c.object.lookup(c)
	list := []xmlrpc.Value{}
	for _, r := range rows {
		list = append(list, c.object.structOf(r))
	}
	return list, err
}

// lookupOf returns the fields of one protection.
func lookupOf(p protection) func(*call) (xmlrpc.Value, error) {
	return func(c *call) (xmlrpc.Value, error) {
		rows, err := c.object.lookup(c)
		for i := range rows {
			maps.DeleteFunc(rows[i].values, func(name string, _ xmlrpc.Value) bool {
				x, _ := c.object.field(name)
				return x.protect != p
			})
		}
		return c.object.dictionary(rows), err
	}
}
