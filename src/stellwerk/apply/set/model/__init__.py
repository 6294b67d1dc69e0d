"""What the author wants, and what the inventory records.

policy              the policies of a set and of one object                        pure
owner               the owner of an object, and its labels and annotations         pure
inventory           the objects of the set and the state of each                   pure
inventory_codec     the inventory as a status or a store keeps it                  pure
desired_set         documents into wanted objects, all of them checked             pure
delete_hooks        objects to apply when the set is deleted, and their record     pure
order               which kinds are written first within a wave                    pure
resource_lookup     where the cluster serves a kind, in whichever version          asks the API server
"""
