package main

import ()

const importedAd = `<rspec xmlns="http://www.geni.net/resources/rspec/3" type="advertisement">
 <node component_id="urn:publicid:IDN+testbed.example.org+node+blade7" component_manager_id="urn:publicid:IDN+testbed.example.org+authority+cm" component_name="blade7" exclusive="true">
  <sliver_type name="raw-pc"><disk_image name="urn:publicid:IDN+testbed.example.org+image+deb"/></sliver_type>
 </node>
 <node component_id="urn:publicid:IDN+example.net+node+theirs" component_manager_id="urn:publicid:IDN+example.net+authority+cm" exclusive="true"/>
</rspec>`
