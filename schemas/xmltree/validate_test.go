package xmltree

import (
	"testing"

	"patchbay/schemas"
)

const rspec3 = `xmlns="http://www.geni.net/resources/rspec/3"`

func TestValidateFindsAndPlaces(t *testing.T) {
	found, err := Validate([]byte("<?xml version='1.0'?>\n<rspec type='request' "+rspec3+">\n <node client_id='n'\n   é='' bad='x' exclusive='maybe'><nodde/></node>\n</rspec>"), "", Limits{})
	for _, f := range found {
		t.Log(f)
	}
	if err != nil || len(found) == 0 {
		t.Errorf("%v, %v", found, err)
	}
	_ = schemas.Request
}
