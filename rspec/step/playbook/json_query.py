# The filter json_query of the collection community.general, which ansible-core does not have. It
# also searches text that is JSON.
import json

import jmespath
from ansible.errors import AnsibleFilterError
from ansible.parsing.ajson import AnsibleJSONEncoder


def json_query(data, expression):
    try:
        # jmespath knows only the types of Python itself.
        return jmespath.search(expression, json.loads(data if isinstance(data, str) else json.dumps(data, cls=AnsibleJSONEncoder)))
    except (ValueError, TypeError, jmespath.exceptions.JMESPathError) as e:
        raise AnsibleFilterError("json_query(%r): %s" % (expression, e))


class FilterModule(object):
    def filters(self):
        return {"json_query": json_query}
