```python
import torch
```
