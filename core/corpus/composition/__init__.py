"""Tasks by composition: tensors with symbolic shapes, operations on them, and teachers of several launches."""
