# SPDX-License-Identifier: Apache-2.0
"""Chat with a notebook: state survives between run_code calls, variables and files alike."""

import os

from cloche import Sandbox

sbx = Sandbox(template=os.environ.get("TEMPLATE", "python-datasci"), idle_timeout_seconds=1800)

# Turn 1: load data.
sbx.run_code("""
import pandas as pd
df = pd.DataFrame({'day': range(1, 8), 'events': [3, 1, 4, 1, 5, 9, 2]})
print(df.shape)
""")

# Turn 2: df is still there.
r = sbx.run_code("print(df.head().to_string())")
print(r.stdout)

# Turn 3: even a file is still there.
sbx.run_code("df.head(100).to_csv('/tmp/sample.csv')")
r = sbx.run_code("import os; print(os.listdir('/tmp'))")
print(r.stdout, r.exit_code)
sbx.close()
